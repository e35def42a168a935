//go:build !linux

package disk

func (f osFile) SyncData() error { return f.Sync() }
