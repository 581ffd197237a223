DROP TABLE metric_metadata, batch_owner, segments, streams, wal_ranges, wals, node_incarnations, nodes;
