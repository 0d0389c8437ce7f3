package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	// maxSecretBytes bounds a secret or a file of certificates.
	maxSecretBytes = 1 << 20
	// maxFileBytes bounds one configuration file.
	maxFileBytes = 64 << 20
)

// readFile reads a file of at most limit bytes, so that a path that leads to
// something endless ends in a fault.
func readFile(path string, limit Bytes) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // The operator names the file, on the command line or in the configuration.
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > int(limit) {
		return nil, fmt.Errorf("is larger than %s", limit)
	}
	return data, nil
}

// plainCause drops the operation and the path, which the fault says already.
func plainCause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err.Error()
	}
	return err.Error()
}
