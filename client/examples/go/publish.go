package ackgate

import (
	"context"
	"errors"

	v1 "ackgate.dev/ackgate/internal/ackgatev1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// Outgoing is a record to write.
type Outgoing struct {
	// Topic must be one that the gateway's configuration lets be written to.
	Topic string
	// Key and Value are nil for Kafka's null; an empty one is empty and not nil.
	Key, Value []byte
	// Headers are written in order, repeats kept.
	Headers []Header
	// Partition is where to; nil for the one that the key decides.
	Partition *int32
}

// Written says what became of an [Outgoing].
type Written struct {
	Topic     string
	Partition int32
	// Offset is -1 if it is not known.
	Offset int64
	// Err is nil if it was written, or says why it was not.
	Err error
}

// PublishBatch writes 1 to 10,000 records, of 16 MiB in total, and waits for all. It
// returns what became of each, in order: look at each Err. The call's own error, an *Error,
// leaves it open which were written. ctx should have a deadline. Of several gateways it is the
// first one that can be reached.
func (c *Client) PublishBatch(ctx context.Context, records []Outgoing) ([]Written, error) {
	to, conn, err := c.reach(ctx)
	if err != nil {
		return nil, invalid("%v", err)
	}
	defer conn.Close()
	request := &v1.PublishBatchRequest{}
	for _, record := range records {
		wire := &v1.OutgoingRecord{
			Topic: record.Topic, Key: record.Key, Value: record.Value, Partition: record.Partition,
		}
		for _, header := range record.Headers {
			wire.Headers = append(wire.Headers, &v1.Header{Key: header.Name, Value: header.Value})
		}
		request.Records = append(request.Records, wire)
	}
	response, err := v1.NewGatewayServiceClient(conn).PublishBatch(ctx, request)
	if err != nil {
		return nil, to.explain(fromStatus(err))
	}
	written := make([]Written, 0, len(response.GetResults()))
	for _, result := range response.GetResults() {
		one := Written{Topic: result.GetTopic(), Partition: result.GetPartition(), Offset: -1}
		if result.Offset != nil {
			one.Offset = result.GetOffset()
		}
		if result.GetError() != v1.PublishError_PUBLISH_ERROR_UNSPECIFIED {
			one.Err = errors.New(result.GetError().String() + ": " + result.GetDetail())
		}
		written = append(written, one)
	}
	return written, nil
}

// reach connects to the first gateway that can be reached; the last one is not waited for.
func (c *Client) reach(ctx context.Context) (*target, *grpc.ClientConn, error) {
	for i := range c.targets {
		to := &c.targets[i]
		conn, err := c.connect(to, 16<<20)
		if err != nil || i == len(c.targets)-1 || isReached(ctx, conn) {
			return to, conn, err
		}
		_ = conn.Close()
	}
	return nil, nil, errors.New("no address")
}

// isReached waits until there is a connection, or the first try has failed.
func isReached(ctx context.Context, conn *grpc.ClientConn) bool {
	conn.Connect()
	for state := conn.GetState(); ; state = conn.GetState() {
		switch state {
		case connectivity.Ready:
			return true
		case connectivity.TransientFailure, connectivity.Shutdown:
			return false
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}
