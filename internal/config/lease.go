package config

import "time"

// minLeaseDuration leaves room for the slowest write to Graph, 40 s, within
// one lease, with time to see that the lease is lost.
const minLeaseDuration = 60 * time.Second

// maxLeaseDuration is how long other replicas wait for a leader, whatever it
// has promised.
const maxLeaseDuration = 10 * time.Minute

// Lease says how one replica becomes the leader. At most one kind is written;
// outside Kubernetes a file lock beside the SQLite file is the default, so
// that after Load exactly one is set.
type Lease struct {
	// A Lease object of the cluster the process runs in.
	Kubernetes *KubernetesLease `yaml:"kubernetes"`
	// A lock on a file, for processes of one machine.
	File *FileLease `yaml:"file"`
}

// KubernetesLease is a Lease object that exists already.
// Duration > RenewDeadline > 1.2 × RetryPeriod.
type KubernetesLease struct {
	// Namespace of the Lease.
	Namespace string `yaml:"namespace" jsonschema:"required"`
	// Name of the Lease.
	Name string `yaml:"name" jsonschema:"required"`
	// How long a leader that is not heard of stays leader, in whole seconds. At least 60s, at most 10m. Default 60s.
	Duration time.Duration `yaml:"duration" jsonschema:"default=60s"`
	// How long the leader goes on without having renewed. Default 40s.
	RenewDeadline time.Duration `yaml:"renewDeadline" jsonschema:"default=40s"`
	// Time between two tries. Default 1500ms.
	RetryPeriod time.Duration `yaml:"retryPeriod" jsonschema:"default=1500ms"`
	// How to reach the cluster from outside. Default the service account of the pod.
	Kubeconfig string `yaml:"kubeconfig" config:"path"`
}

// FileLease is a lock on a file.
type FileLease struct {
	// The file. Default the SQLite file's path with .lease after it.
	Path string `yaml:"path" config:"path"`
	// Says that no other machine uses the same PostgreSQL database; without it a file lock there is refused. Default false.
	Single bool `yaml:"single" jsonschema:"default=false"`
}

func (k *KubernetesLease) setDefaults() {
	k.Duration, k.RenewDeadline, k.RetryPeriod = minLeaseDuration, 40*time.Second, 1500*time.Millisecond
}

func (l *Lease) check(a place, s *Store, inKubernetes bool) {
	switch {
	case l.Kubernetes != nil && l.File != nil:
		checkOneKind(a, kind{"kubernetes", true}, kind{"file", true})
	case l.Kubernetes != nil:
		l.Kubernetes.check(a.key("kubernetes"))
	case l.File == nil && inKubernetes:
		a.fault("names no lease, and in Kubernetes there is no default",
			"name lease.kubernetes, or lease.file where there is one replica")
	case l.File == nil && s.SQLite != nil:
		l.File = &FileLease{Path: s.SQLite.Path + ".lease"}
	case l.File == nil:
		a.fault("names no lease", "name kubernetes or file")
	default:
		l.File.check(a.key("file"), s)
	}
}

func (f *FileLease) check(a place, s *Store) {
	if s.Postgres != nil && !f.Single {
		a.fault("a file lock does not keep other machines off a PostgreSQL database",
			"use lease.kubernetes, or write single: true where only this machine uses the database")
	}
	switch {
	case f.Path != "":
	case s.SQLite != nil:
		f.Path = s.SQLite.Path + ".lease"
	default:
		checkText(a.key("path"), f.Path)
	}
}

func (k *KubernetesLease) check(a place) {
	checkLabel(a.key("namespace"), k.Namespace)
	checkLabel(a.key("name"), k.Name)
	switch at := a.key("duration"); {
	case k.Duration < minLeaseDuration:
		at.fault("is "+k.Duration.String()+", below the floor of 60s", "write 60s or more")
	case k.Duration > maxLeaseDuration:
		at.fault("is "+k.Duration.String()+", above the ceiling of 10m", "write 10m or less")
	case k.Duration%time.Second != 0:
		at.fault("is "+k.Duration.String()+", and a Lease counts whole seconds", "write whole seconds, such as 60s")
	}
	if k.RenewDeadline >= k.Duration {
		a.key("renewDeadline").fault("is not below duration, which is "+k.Duration.String(),
			"write two thirds of duration or less")
	}
	// client-go stretches the retry period by up to 1.2 and refuses to start otherwise.
	if k.RetryPeriod <= 0 || k.RenewDeadline <= k.RetryPeriod*6/5 {
		a.key("retryPeriod").fault("is not above zero and, by a factor of 1.2, below renewDeadline, which is "+
			k.RenewDeadline.String(), "write 1500ms, or a larger renewDeadline")
	}
}
