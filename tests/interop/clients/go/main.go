// franz-go behind the line protocol of ../serve.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const deadline = 30 * time.Second

type header [2]*string

type record struct {
	Offset      int64    `json:"offset"`
	TimestampMs int64    `json:"timestamp_ms"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []header `json:"headers"`
}

type command struct {
	Do               string             `json:"do"`
	Topic            string             `json:"topic"`
	Partition        int32              `json:"partition"`
	Partitions       int32              `json:"partitions"`
	Configs          map[string]*string `json:"configs"`
	Compression      string             `json:"compression"`
	Acks             any                `json:"acks"`
	Idempotent       bool               `json:"idempotent"`
	MaxBytes         int32              `json:"max_bytes"`
	BatchRecords     int                `json:"batch_records"`
	Records          []record           `json:"records"`
	Offset           int64              `json:"offset"`
	Count            int                `json:"count"`
	Total            int                `json:"total"`
	Name             string             `json:"name"`
	Value            string             `json:"value"`
	At               any                `json:"at"`
	Before           int64              `json:"before"`
	Group            string             `json:"group"`
	InstanceID       *string            `json:"instance_id"`
	SessionTimeoutMs int                `json:"session_timeout_ms"`
	Assignor         string             `json:"assignor"`
	Isolation        string             `json:"isolation"`
	Producer         string             `json:"producer"`
	TransactionalID  string             `json:"transactional_id"`
	Values           [][]byte           `json:"values"`
	Source           string             `json:"source"`
}

type answer map[string]any

var printing sync.Mutex

func tell(message answer) {
	printing.Lock()
	defer printing.Unlock()
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

func newClient(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), kgo.ClientID("franz-go"))...)
}

func compression(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

func produce(ctx context.Context, c command) (answer, error) {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(compression(c.Compression)),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.UnknownTopicRetries(1),
	}
	if c.MaxBytes > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(c.MaxBytes), kgo.BrokerMaxWriteBytes(2*c.MaxBytes))
	}
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	switch c.Acks {
	case 0.0:
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	case 1.0:
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	default:
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	client, err := newClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	step := c.BatchRecords
	if step == 0 {
		step = len(c.Records)
	}
	offsets := []int64{}
	for start := 0; start < len(c.Records); start += step {
		batch := []*kgo.Record{}
		for _, r := range c.Records[start:min(start+step, len(c.Records))] {
			headers := []kgo.RecordHeader{}
			for _, pair := range r.Headers {
				var value []byte
				if pair[1] != nil {
					if err := json.Unmarshal([]byte(`"`+*pair[1]+`"`), &value); err != nil {
						return nil, err
					}
				}
				headers = append(headers, kgo.RecordHeader{Key: *pair[0], Value: value})
			}
			batch = append(batch, &kgo.Record{
				Topic: c.Topic, Partition: c.Partition, Key: r.Key, Value: r.Value, Headers: headers,
				Timestamp: time.UnixMilli(r.TimestampMs),
			})
		}
		results := client.ProduceSync(ctx, batch...)
		if err := results.FirstErr(); err != nil {
			return nil, err
		}
		for _, r := range batch {
			offsets = append(offsets, r.Offset)
		}
	}
	return answer{"offsets": offsets}, nil
}

func fromRecord(r *kgo.Record) record {
	headers := []header{}
	for _, h := range r.Headers {
		name := h.Key
		pair := header{&name, nil}
		if h.Value != nil {
			text, _ := json.Marshal(h.Value)
			value := string(text[1 : len(text)-1])
			pair[1] = &value
		}
		headers = append(headers, pair)
	}
	return record{r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, headers}
}

func consume(ctx context.Context, c command) (answer, error) {
	options := []kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			c.Topic: {c.Partition: kgo.NewOffset().At(c.Offset)},
		}),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}
	if c.MaxBytes > 0 {
		options = append(options, kgo.FetchMaxPartitionBytes(c.MaxBytes))
	}
	if c.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := newClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []record{}
	for len(records) < c.Count {
		fetches := client.PollRecords(ctx, c.Count-len(records))
		for _, failed := range fetches.Errors() {
			return nil, failed.Err
		}
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, fromRecord(r)) })
	}
	return answer{"records": records}, nil
}

func offsets(ctx context.Context, admin *kadm.Client, c command) (answer, error) {
	var listed kadm.ListedOffsets
	var err error
	switch at := c.At.(type) {
	case string:
		if at == "earliest" {
			listed, err = admin.ListStartOffsets(ctx, c.Topic)
		} else {
			listed, err = admin.ListEndOffsets(ctx, c.Topic)
		}
	case float64:
		// kadm's own ListOffsetsAfterMilli answers the end of the log where nothing is that young.
		listed, err = admin.ListOffsetsAfterMilli(ctx, int64(at), c.Topic)
	}
	if err != nil {
		return nil, err
	}
	found, ok := listed.Lookup(c.Topic, c.Partition)
	if !ok {
		return nil, errors.New("no such partition in the answer")
	}
	return answer{"offset": found.Offset}, found.Err
}

func administer(ctx context.Context, c command) (answer, error) {
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	switch c.Do {
	case "create_topic":
		_, err := admin.CreateTopic(ctx, c.Partitions, 1, c.Configs, c.Topic)
		return answer{}, err
	case "delete_topic":
		response, err := admin.DeleteTopics(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		return answer{}, response[c.Topic].Err
	case "create_partitions":
		response, err := admin.UpdatePartitions(ctx, c.Total, c.Topic)
		if err != nil {
			return nil, err
		}
		return answer{}, response[c.Topic].Err
	case "describe_topic":
		topics, err := admin.ListTopics(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		return answer{"partitions": len(topics[c.Topic].Partitions)}, topics[c.Topic].Err
	case "describe_config":
		response, err := admin.DescribeTopicConfigs(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		if response[0].Err != nil {
			return nil, response[0].Err
		}
		for _, config := range response[0].Configs {
			if config.Key == c.Name {
				return answer{"value": config.Value}, nil
			}
		}
		return nil, fmt.Errorf("no config %q", c.Name)
	case "alter_config":
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: c.Name, Value: &c.Value}
		response, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, c.Topic)
		if err != nil {
			return nil, err
		}
		return answer{}, response[0].Err
	case "offsets":
		return offsets(ctx, admin, c)
	case "delete_records":
		before := kadm.Offsets{}
		before.AddOffset(c.Topic, c.Partition, c.Before, -1)
		response, err := admin.DeleteRecords(ctx, before)
		if err != nil {
			return nil, err
		}
		deleted, _ := response.Lookup(c.Topic, c.Partition)
		return answer{"low_watermark": deleted.LowWatermark}, deleted.Err
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func partitionsOf(topic string, partitions map[string][]int32) []int32 {
	if found := partitions[topic]; found != nil {
		return found
	}
	return []int32{}
}

func member(ctx context.Context, c command) error {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	revoked := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		tell(answer{"event": "revoked", "partitions": partitionsOf(c.Topic, partitions)})
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Topic), kgo.Balancers(balancers[c.Assignor]),
		kgo.SessionTimeout(time.Duration(c.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(c.SessionTimeoutMs) * time.Millisecond / 10),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			tell(answer{"event": "assigned", "partitions": partitionsOf(c.Topic, assigned)})
		}),
		kgo.OnPartitionsRevoked(revoked), kgo.OnPartitionsLost(revoked),
	}
	if c.InstanceID != nil {
		options = append(options, kgo.InstanceID(*c.InstanceID))
	}
	client, err := newClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, failed := range fetches.Errors() {
			tell(answer{"event": "error", "message": failed.Err.Error()})
		}
		fetches.EachRecord(func(r *kgo.Record) {
			tell(answer{"event": "record", "partition": r.Partition, "offset": r.Offset})
		})
		if fetches.NumRecords() > 0 {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				tell(answer{"event": "commit_failed", "message": err.Error()})
			}
		}
	}
}

func handle(c command) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	switch c.Do {
	case "produce":
		return produce(ctx, c)
	case "consume":
		return consume(ctx, c)
	case "init_transactions":
		return answer{}, initTransactions(ctx, c)
	case "begin_transaction":
		return answer{}, producers[c.Producer].begin()
	case "produce_in_transaction":
		return answer{}, producers[c.Producer].send(ctx, c, c.Values)
	case "transfer":
		return answer{}, producers[c.Producer].transfer(ctx, c)
	case "commit_transaction":
		return answer{}, producers[c.Producer].end(ctx, kgo.TryCommit)
	case "abort_transaction":
		return answer{}, producers[c.Producer].end(ctx, kgo.TryAbort)
	case "run_transactions":
		return runTransactions(ctx, c)
	case "close_producer":
		producers[c.Producer].client.Close()
		delete(producers, c.Producer)
		return answer{}, nil
	}
	return administer(ctx, c)
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "secured" {
		if err := thereAndBack(os.Args[2]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Do == "member" {
			ctx, stop := context.WithCancel(context.Background())
			go func() {
				lines.Scan() // {"do": "stop"}, or the end of the input
				stop()
			}()
			if err := member(ctx, c); err != nil {
				tell(answer{"event": "error", "message": err.Error()})
				os.Exit(1)
			}
			tell(answer{"event": "left"})
			return
		}
		result, err := handle(c)
		if err == nil {
			tell(answer{"ok": result})
			continue
		}
		var code any
		var refused *kerr.Error
		if errors.As(err, &refused) {
			code = refused.Code
		}
		tell(answer{"error": code, "message": err.Error()})
	}
}
