package app

import (
	"context"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/lease"
)

// elector decides whether this process leads. Run blocks until ctx has ended
// and runs body while it leads; an error says that the process has to end.
// Left is for body to ask, from any goroutine: how long nobody else will lead.
type elector interface {
	Run(ctx context.Context, body lease.Body) error
	Left() time.Duration
}

var (
	_ elector = (*lease.File)(nil)
	_ elector = (*lease.Kubernetes)(nil)
)

// newElector makes the one kind of election that the configuration names.
func (a *App) newElector() (elector, error) {
	k := a.cfg.Lease.Kubernetes
	if k == nil {
		return lease.NewFile(lease.FileConfig{
			Path: a.cfg.Lease.File.Path, Election: a.cfg.Instance, Logger: a.component("lease"), Registerer: a.registry,
		})
	}
	client, err := lease.NewClient(k.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return lease.NewKubernetes(lease.KubernetesConfig{
		Namespace: k.Namespace, Name: k.Name,
		Duration: k.Duration, RenewDeadline: k.RenewDeadline, RetryPeriod: k.RetryPeriod,
		Election: a.cfg.Instance, Identity: a.holder, Client: client, LostCause: graph.ErrLeaseLost,
		Logger: a.component("lease"), Registerer: a.registry,
	})
}
