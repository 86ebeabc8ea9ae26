package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Transactions of ten records in two partitions, one after the other: the load of bench/transactions_vs_kafka.py.
const (
	recordsPerTransaction = 10
	recordBytes           = 100
)

var loading = map[int]*kgo.Client{}

func runTransactions(ctx context.Context, c command) (answer, error) {
	for number := range c.Total {
		if loading[number] == nil {
			client, err := newClient(
				kgo.TransactionalID(fmt.Sprintf("franz-go-%d", number)),
				kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.ProducerLinger(0))
			if err != nil {
				return nil, err
			}
			loading[number] = client
		}
	}
	var everyone sync.WaitGroup
	failed := make(chan error, c.Total)
	startedAt := time.Now()
	for number := range c.Total {
		everyone.Add(1)
		go func() {
			defer everyone.Done()
			for range c.Count {
				if err := runTransaction(ctx, loading[number], c.Topic); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	everyone.Wait()
	took := time.Since(startedAt)
	select {
	case err := <-failed:
		return nil, err
	default:
		return answer{"seconds": took.Seconds()}, nil
	}
}

func runTransaction(ctx context.Context, client *kgo.Client, topic string) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	records := make([]*kgo.Record, recordsPerTransaction)
	for number := range records {
		records[number] = &kgo.Record{Topic: topic, Partition: int32(number % 2), Value: make([]byte, recordBytes)}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}
