package file

import "errors"

// Faults makes the files of a sink fail, and counts what is done to them.
type Faults struct {
	SyncError, TruncateError error
	WriteLimit               int // bytes of one write, 0 for all
	Opens, Syncs             int
}

// Watch puts faults between a sink and its files.
func Watch(s *Sink) *Faults {
	faults := &Faults{}
	open := s.open
	s.open = func(path string) (handle, error) {
		h, err := open(path)
		if err != nil {
			return nil, err
		}
		faults.Opens++
		return &faulty{h, faults}, nil
	}
	return faults
}

type faulty struct {
	handle
	faults *Faults
}

func (f *faulty) Write(p []byte) (int, error) {
	if limit := f.faults.WriteLimit; limit > 0 && len(p) > limit {
		n, err := f.handle.Write(p[:limit])
		return n, errors.Join(err, errors.New("no space left on device"))
	}
	return f.handle.Write(p)
}

func (f *faulty) Sync() error {
	f.faults.Syncs++
	return errors.Join(f.faults.SyncError, f.handle.Sync())
}

func (f *faulty) Truncate(size int64) error {
	if f.faults.TruncateError != nil {
		return f.faults.TruncateError
	}
	return f.handle.Truncate(size)
}
