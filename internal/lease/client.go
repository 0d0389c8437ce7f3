package lease

import (
	"fmt"

	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// NewClient reads how to reach the API server, from a kubeconfig file or, when
// its path is empty, from what a pod is given. It calls nobody.
func NewClient(kubeconfig string) (*coordination.CoordinationV1Client, error) {
	config, err := restConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("lease: how to reach the Kubernetes API: %w", err)
	}
	client, err := clientFor(config)
	if err != nil {
		return nil, fmt.Errorf("lease: how to reach the Kubernetes API: %w", err)
	}
	return client, nil
}

func clientFor(config *rest.Config) (*coordination.CoordinationV1Client, error) {
	config.UserAgent = "graphsubd"
	config.ContentType = "application/json"   // so that what is written can be read on the way
	config.WarningHandler = rest.NoWarnings{} // they would go past our log
	// The elector has its own pace, and a wait before a renewal shortens the lease.
	config.QPS = -1
	// All requests of HTTP/2 share a connection, and when its other end is
	// gone this is found out only after 45 s, later than the renew deadline.
	// With HTTP/1.1 a call that timed out takes its connection with it.
	config.NextProtos = []string{"http/1.1"}
	return coordination.NewForConfig(config)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
