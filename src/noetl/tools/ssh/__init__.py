"""`ssh` and `sftp`: commands on another machine, and its files."""
