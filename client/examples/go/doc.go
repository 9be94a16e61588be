// Package ackgate subscribes to Kafka records through an ackgate gateway: no consumer
// group, no rebalance callbacks, no offsets. A handler gets one record at a time, what it
// returns is the verdict on it, and the verdicts alone decide what the gateway commits.
//
//	client, err := ackgate.Dial("127.0.0.1:7654", ackgate.DialOptions{})
//	...
//	orders, err := client.Open(ctx, "orders", ackgate.Options{})
//	...
//	err = orders.Run(ctx, 8, func(ctx context.Context, d *ackgate.Delivery) error {
//		order, err := parse(d.Value)
//		if err != nil {
//			return ackgate.Reject("malformed", err.Error()) // a dead letter, now
//		}
//		if err := store(ctx, order); err != nil {
//			return ackgate.RetryAfter(time.Second, err) // again, not before that
//		}
//		return nil // acked
//	})
//
// Cancelling ctx closes gracefully: handlers finish, their verdicts are sent, what was not
// begun is given back.
//
// # Verdicts
//
//	returned by the handler    verdict                                    uses an attempt
//	nil                        acked: done                                no
//	Reject(code, reason)       rejected: a dead letter, now               no
//	RetryAfter(d, err)         failed: again, not before d                yes
//	ErrRelease                 released: again at once, elsewhere         no
//	any other error, a panic   failed: again after the gateway's backoff  yes
//
// # What is guaranteed
//
// A record that was acked counts as done once the gateway has the ack; if the connection
// or the gateway is lost before, it is delivered again. So a record can come more than
// once: topic, partition and offset tell it apart. A Subscriber connects again by itself.
// If only the connection was lost, and for less than the gateway's resume_grace, what is in
// hand stays valid; a verdict on what the gateway did not keep is dropped and told as a
// [Problem] of kind [Lost].
//
// # One at a time, and whole batches
//
// [Subscriber.Receive] returns deliveries to be answered by their methods, from any
// goroutine. [Subscriber.RunBatches] and [Subscriber.ReceiveBatch] give the batches as they
// came in; acking a whole one costs a handful of numbers.
package ackgate

//go:generate go run ./internal/generate -protos ../../../proto -module ackgate.dev/ackgate -package ackgate.dev/ackgate/internal/ackgatev1
