// A member of a consumer group with franz-go. It says on stdout what it owns and how many records it has read,
// in the lines of Kafka's VerifiableConsumer, and leaves the group when it is terminated.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type event struct {
	Name       string      `json:"name"`
	Count      int         `json:"count"`
	Partitions []partition `json:"partitions"`
}

var lines sync.Mutex // callbacks of the group run beside the polling

func say(it event) {
	line, err := json.Marshal(it)
	if err != nil {
		fail(err)
	}
	lines.Lock()
	defer lines.Unlock()
	fmt.Println(string(line))
}

// told is a callback that says which partitions it was given.
func told(name string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		it := event{Name: name, Partitions: []partition{}}
		for topic, numbers := range topics {
			for _, number := range numbers {
				it.Partitions = append(it.Partitions, partition{topic, number})
			}
		}
		say(it)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "franz-go:", err)
	os.Exit(1)
}

func main() {
	if len(os.Args) != 5 || (os.Args[4] != "classic" && os.Args[4] != "consumer") {
		fmt.Fprintln(os.Stderr, "usage: franz-go BOOTSTRAP GROUP TOPIC classic|consumer")
		os.Exit(2)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumerGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(10 * time.Second),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.OnPartitionsAssigned(told("partitions_assigned")),
		kgo.OnPartitionsRevoked(told("partitions_revoked")),
		kgo.OnPartitionsLost(told("partitions_revoked")),
	}
	if os.Args[4] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fail(err)
	}
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for {
		fetches := client.PollFetches(terminated)
		if terminated.Err() != nil {
			break
		}
		if errors := fetches.Errors(); len(errors) > 0 {
			fail(errors[0].Err)
		}
		say(event{Name: "records_consumed", Count: fetches.NumRecords()})
	}
	client.Close()
}
