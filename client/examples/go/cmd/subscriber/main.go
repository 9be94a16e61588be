// Command subscriber prints the records of a subscription and acks them.
//
//	subscriber [OPTIONS] [ADDRESS[,ADDRESS...] [SUBSCRIPTION]]
//
// By default it subscribes to `orders` at 127.0.0.1:7654, where `ackgate demo` serves them.
// Ctrl-C ends it: records that are begun are finished, the rest is given back.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"ackgate.dev/ackgate"
	"ackgate.dev/ackgate/internal/commandline"
)

func main() {
	dial := commandline.DialFlags(flag.CommandLine)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: subscriber [OPTIONS] [ADDRESS[,ADDRESS...] [SUBSCRIPTION]]")
		fmt.Fprintln(flag.CommandLine.Output(), "by default: subscriber 127.0.0.1:7654 orders")
		fmt.Fprintln(flag.CommandLine.Output(), "TLS: an address https://HOST:PORT, or an option -tls-...")
		flag.PrintDefaults()
	}
	flag.Parse()
	address, subscription := "127.0.0.1:7654", "orders"
	switch flag.NArg() {
	case 2:
		subscription = flag.Arg(1)
		fallthrough
	case 1:
		address = flag.Arg(0)
	case 0:
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err := run(commandline.UntilSignal(), address, subscription, *dial); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, subscription string, dial ackgate.DialOptions) error {
	client, err := ackgate.DialAny(strings.Split(address, ","), dial)
	if err != nil {
		return err
	}
	subscriber, err := client.Open(ctx, subscription, ackgate.Options{Trace: &ackgate.Trace{
		Opened: func(session, id string, _ int) {
			fmt.Fprintf(os.Stderr, "subscribed to %s as %s, session %s\n", subscription, id, session)
		},
		Disconnected: func(err *ackgate.Error, retryIn time.Duration) {
			fmt.Fprintf(os.Stderr, "%v; again in %v\n", err, retryIn.Round(time.Millisecond))
		},
	}})
	if ctx.Err() != nil {
		return nil // ended before there was a stream
	}
	if err != nil {
		return err
	}
	err = subscriber.Run(ctx, 8, func(_ context.Context, d *ackgate.Delivery) error {
		if !utf8.Valid(d.Value) {
			return ackgate.Reject("not-utf-8", "the value is not UTF-8")
		}
		fmt.Printf("%s/%d@%d %s %s\n", d.Topic, d.Partition, d.Offset, text(d.Key), text(d.Value))
		return nil
	})
	stats := subscriber.Stats()
	fmt.Fprintf(os.Stderr, "%d records, %d acked, %d rejected\n", stats.Records, stats.Acked, stats.Rejected)
	return err
}

// text shows a key or a value; Kafka's null differs from an empty one.
func text(of []byte) string {
	if of == nil {
		return "<null>"
	}
	return strings.ToValidUTF8(string(of), "\uFFFD")
}
