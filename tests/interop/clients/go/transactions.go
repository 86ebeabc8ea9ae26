package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A transactional producer. franz-go sends offsets only through a session, which is producer and group member in
// one, and which sends them when the transaction is committed.
type producer struct {
	client  *kgo.Client
	session *kgo.GroupTransactSession
}

var producers = map[string]*producer{}

func initTransactions(ctx context.Context, c command) error {
	options := []kgo.Opt{
		kgo.TransactionalID(c.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	made := &producer{}
	var err error
	if c.Group == "" {
		made.client, err = newClient(options...)
	} else {
		options = append(options,
			kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), kgo.ClientID("franz-go"),
			kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Source), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
		made.session, err = kgo.NewGroupTransactSession(options...)
		if err == nil {
			made.client = made.session.Client()
		}
	}
	if err != nil {
		return err
	}
	producers[c.Producer] = made
	_, _, err = made.client.ProducerID(ctx) // asks for it now, not with the first record
	return err
}

func (p *producer) begin() error {
	if p.session != nil {
		return p.session.Begin()
	}
	return p.client.BeginTransaction()
}

func (p *producer) send(ctx context.Context, c command, values [][]byte) error {
	records := []*kgo.Record{}
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: c.Topic, Partition: c.Partition, Value: value})
	}
	return p.client.ProduceSync(ctx, records...).FirstErr()
}

func (p *producer) transfer(ctx context.Context, c command) error {
	values := [][]byte{}
	for len(values) < c.Count {
		fetches := p.session.PollRecords(ctx, c.Count-len(values))
		for _, failed := range fetches.Errors() {
			return failed.Err
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, r.Value) })
	}
	return p.send(ctx, c, values)
}

func (p *producer) end(ctx context.Context, how kgo.TransactionEndTry) error {
	if p.session == nil {
		return p.client.EndTransaction(ctx, how)
	}
	committed, err := p.session.End(ctx, how)
	if err == nil && committed != bool(how) {
		return errors.New("the session aborted the transaction instead of committing it")
	}
	return err
}
