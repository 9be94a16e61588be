// Command conformance is a subscriber for tests: told by each record what to do with it, it
// prints what happens as JSON, one object a line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"ackgate.dev/ackgate"
	"ackgate.dev/ackgate/internal/commandline"
)

// arguments are those of the command line.
type arguments struct {
	address, subscription string
	dial                  *ackgate.DialOptions
	options               ackgate.Options
	concurrency           int
	batches               bool
}

func main() {
	given, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	events := newEvents(os.Stdout)
	if err := run(commandline.UntilSignal(), given, events); err != nil {
		events.failed(err)
		os.Exit(1)
	}
}

func parse(line []string) (*arguments, error) {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.Usage = func() { flags.PrintDefaults() }
	a := &arguments{dial: commandline.DialFlags(flags)}
	var credit, maxMessage uint64
	var deadline int64
	flags.StringVar(&a.address, "address", "", "the gateway's `ADDRESS`, or several with commas, tried in turn")
	flags.StringVar(&a.subscription, "subscription", "", "its `NAME`")
	flags.StringVar(&a.options.SubscriberID, "subscriber-id", "", "this subscriber's `NAME`")
	flags.Uint64Var(&credit, "credit", 64, "most records in hand")
	flags.IntVar(&a.concurrency, "concurrency", 8, "most handlers at a time")
	flags.Uint64Var(&maxMessage, "max-message-bytes", 4<<20, "largest message accepted")
	flags.Int64Var(&deadline, "ack-deadline", 0, "time for a verdict, in `MS`")
	flags.BoolVar(&a.options.UntilDrained, "until-drained", false, "end when nothing is left")
	flags.BoolVar(&a.batches, "batches", false, "ack whole batches")
	if err := flags.Parse(line); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case a.address == "" || a.subscription == "":
		return nil, errors.New("--address and --subscription are required")
	case a.concurrency < 1 || a.concurrency > 10_000:
		return nil, errors.New("--concurrency: 1 to 10000")
	case credit < 1 || credit > 1_000_000:
		return nil, errors.New("--credit: 1 to 1000000")
	case deadline < 0 || deadline > 3_600_000:
		return nil, errors.New("--ack-deadline: 100 to 3600000")
	}
	a.options.CreditRecords = uint32(credit)
	a.options.MaxMessageBytes = maxMessage
	a.options.AckDeadline = time.Duration(deadline) * time.Millisecond
	return a, nil
}

func run(ctx context.Context, given *arguments, events *events) error {
	given.options.Trace = events.trace(!given.batches)
	client, err := ackgate.DialAny(strings.Split(given.address, ","), *given.dial)
	if err != nil {
		return err
	}
	subscriber, err := client.Open(ctx, given.subscription, given.options)
	if err != nil && ctx.Err() != nil {
		events.closed(ackgate.Stats{})
		return nil
	}
	if err != nil {
		return err
	}
	if given.batches {
		err = subscriber.RunBatches(ctx, given.concurrency, func(_ context.Context, batch *ackgate.Batch) error {
			events.batch(batch)
			batch.AckAll()
			return nil
		})
	} else {
		err = subscriber.Run(ctx, given.concurrency, func(ctx context.Context, d *ackgate.Delivery) error {
			events.delivery(d)
			return handle(ctx, d)
		})
	}
	if err != nil {
		return err
	}
	events.closed(subscriber.Stats())
	return nil
}
