"""What notebooks show: small pieces of HTML and SVG that need no network, no script and no other file."""
