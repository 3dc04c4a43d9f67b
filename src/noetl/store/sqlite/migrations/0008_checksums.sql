-- A payload that a broken disk has changed is noticed (RELIABILITY 4.2). Events written earlier have no checksum.
ALTER TABLE event ADD COLUMN checksum INTEGER;
