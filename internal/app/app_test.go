package app

import (
	"testing"

	"github.com/millstream/millstream/internal/config"
)

func TestHeapLimit(t *testing.T) {
	for name, c := range map[string]struct{ memory, engine, want config.Size }{
		"large machine":   {memory: 64 << 30, engine: 32 << 30, want: 24 << 30},
		"small container": {memory: 2 << 30, engine: 1 << 30, want: 1 << 30},
		"all to queries":  {memory: 4 << 30, engine: 8 << 30, want: 1 << 30},
	} {
		cfg := config.Default()
		cfg.Querier.MemoryLimit = c.engine
		if got := heapLimit(c.memory, &cfg); got != int64(c.want) {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
