// One record there and back over SASL_SSL. The argument: a JSON object, as for ../secured.py.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type login struct {
	Address, CA, Mechanism, User, Secret, Token, Topic string
}

func (given login) mechanism() sasl.Mechanism {
	switch given.Mechanism {
	case "PLAIN":
		return plain.Auth{User: given.User, Pass: given.Secret}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: given.User, Pass: given.Secret}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: given.User, Pass: given.Secret}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: given.Token}.AsMechanism()
}

func thereAndBack(argument string) error {
	var given login
	if err := json.Unmarshal([]byte(argument), &given); err != nil {
		return err
	}
	pem, err := os.ReadFile(given.CA)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(given.Address),
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
		kgo.SASL(given.mechanism()),
		kgo.ConsumerGroup("g-"+given.Topic),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	record := &kgo.Record{Topic: given.Topic, Value: []byte("hello")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if records := fetches.Records(); len(records) > 0 {
			fmt.Println(string(records[0].Value))
			return nil
		}
	}
	return ctx.Err()
}
