"""Tests of the project as a whole: its folders, its wheel, its pages, its benchmark."""
