package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphsubd/graphsubd/internal/admin"
)

// register adds the described routes.
func (a *Admin) register(api huma.API) {
	huma.Register(api, read("get-status", "/api/v1/status", "How the process and its store are"), a.status)
	huma.Register(api, read("list-subscriptions", "/api/v1/subscriptions", "Subscriptions, page by page"), a.list)
	one := read("get-subscription", "/api/v1/subscriptions/{name}", "One subscription")
	one.Errors = append(one.Errors, http.StatusNotFound)
	huma.Register(api, one, a.get)
	huma.Register(api, read("get-plan", "/api/v1/plan", "What the leader is about to do"), a.plan)
	huma.Register(api, huma.Operation{
		OperationID: "approve-plan", Method: http.MethodPost, Path: approvalPath, Summary: "Release what is held",
		Security: []map[string][]string{{bearer: {roleOperator}}},
		Errors:   []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusServiceUnavailable},
	}, a.approve)
}

// approvalPath is the one that is posted to.
const approvalPath = "/api/v1/plan/approval"

// read describes a route that every role may use.
func read(id, path, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary,
		Security: []map[string][]string{{bearer: {roleViewer}}},
		Errors:   []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable},
	}
}

type statusOutput struct{ Body admin.Status }

func (a *Admin) status(ctx context.Context, _ *struct{}) (*statusOutput, error) {
	status, err := a.reader.Status(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &statusOutput{status}, nil
}

type listInput struct {
	State  string `query:"state" enum:"pending,active,recreating,parked,deleting" doc:"Only those in this state."`
	Tenant string `query:"tenant" doc:"Only those of this tenant, by its name in the configuration."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
	After  string `query:"after" doc:"Only those whose name comes after this one: next of the page before."`
}

type listOutput struct{ Body admin.SubscriptionList }

func (a *Admin) list(ctx context.Context, in *listInput) (*listOutput, error) {
	all, err := a.reader.Subscriptions(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &listOutput{page(all, in)}, nil
}

// page picks from all, which is in the order of the names.
func page(all []admin.Subscription, in *listInput) admin.SubscriptionList {
	list := admin.SubscriptionList{Items: []admin.Subscription{}}
	from, found := slices.BinarySearchFunc(all, in.After, func(s admin.Subscription, name string) int {
		return strings.Compare(s.Name, name)
	})
	if found {
		from++
	}
	for i := from; i < len(all); i++ {
		if in.State != "" && all[i].State != in.State || in.Tenant != "" && all[i].Tenant != in.Tenant {
			continue
		}
		if len(list.Items) == in.Limit {
			list.Next = list.Items[in.Limit-1].Name
			break
		}
		list.Items = append(list.Items, all[i])
	}
	return list
}

type getInput struct {
	Name string `path:"name" doc:"Name of the subscription."`
}

type getOutput struct{ Body admin.Subscription }

func (a *Admin) get(ctx context.Context, in *getInput) (*getOutput, error) {
	s, found, err := a.reader.Subscription(ctx, in.Name)
	switch {
	case err != nil:
		return nil, a.problem(ctx, err)
	case !found:
		return nil, huma.Error404NotFound(fmt.Sprintf("there is no subscription named %q", in.Name))
	}
	return &getOutput{s}, nil
}

type planInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many steps at most."`
}

type planOutput struct{ Body admin.Plan }

func (a *Admin) plan(ctx context.Context, in *planInput) (*planOutput, error) {
	plan, err := a.reader.Plan(ctx, in.Limit)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &planOutput{plan}, nil
}

type approvalInput struct {
	Body struct {
		ID string `json:"id" minLength:"1" maxLength:"64" doc:"The id of hold in the plan that was looked at."`
	}
}

type approvalOutput struct{ Body admin.Approval }

func (a *Admin) approve(ctx context.Context, in *approvalInput) (*approvalOutput, error) {
	approval, ok, err := a.reader.Approve(ctx, callerOf(ctx).name, in.Body.ID)
	switch {
	case err != nil:
		return nil, a.problem(ctx, err)
	case !ok:
		return nil, huma.Error409Conflict("what is held is not what was seen: look at the plan again")
	}
	return &approvalOutput{approval}, nil
}
