package postgres

import (
	"maps"
	"slices"
	"strconv"
)

const defaultConnections = 50

// settings are the server's options. The catalog is small and read often: little memory, no parallel workers, no replication, and short recoveries.
func (s *Server) settings() []string {
	connections := s.opts.MaxConnections
	if connections == 0 {
		connections = defaultConnections
	}
	set := map[string]string{
		"listen_addresses":        "",
		"port":                    socketPort,
		"unix_socket_directories": s.socket,
		"unix_socket_permissions": "0700",
		"max_connections":         strconv.Itoa(connections),

		"shared_buffers":         "32MB",
		"work_mem":               "4MB",
		"maintenance_work_mem":   "32MB",
		"temp_buffers":           "1MB",
		"effective_cache_size":   "256MB",
		"huge_pages":             "off",
		"jit":                    "off", // compiling costs more than our queries
		"random_page_cost":       "1.1",
		"autovacuum_max_workers": "1",
		"autovacuum_naptime":     "30s",

		"max_worker_processes":            "1", // the least: no parallel query, no logical replication
		"max_parallel_workers":            "0",
		"max_parallel_workers_per_gather": "0",
		"max_logical_replication_workers": "0",
		"max_wal_senders":                 "0",
		"wal_level":                       "minimal",

		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		"wal_compression":    "on",
		"min_wal_size":       "16MB",
		"max_wal_size":       "256MB", // bounds the recovery after a crash
		"checkpoint_timeout": "10min",

		"logging_collector":       "off",
		"log_destination":         "stderr",
		"log_line_prefix":         "",
		"log_min_error_statement": "panic", // statements may hold what is not for logs
	}
	maps.Copy(set, s.opts.Settings)
	var args []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "-c", k+"="+set[k])
	}
	return args
}
