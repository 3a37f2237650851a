"""Files on local disks, HDFS and object stores: operations, conditional writes, checksums, errors in words."""
