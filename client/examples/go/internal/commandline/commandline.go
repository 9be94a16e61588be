// Package commandline has what the programs' command lines have in common.
package commandline

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"ackgate.dev/ackgate"
)

// DialFlags adds the options of a connection to a command line. What is returned is filled
// in when it is parsed.
func DialFlags(flags *flag.FlagSet) *ackgate.DialOptions {
	options := &ackgate.DialOptions{}
	flags.StringVar(&options.TLSCA, "tls-ca", "", "`FILE` with the authorities to trust, PEM")
	flags.StringVar(&options.TLSCert, "tls-cert", "", "`FILE` with this side's certificate, PEM")
	flags.StringVar(&options.TLSKey, "tls-key", "", "`FILE` with its key, PEM")
	flags.StringVar(&options.TLSServerName, "tls-server-name", "", "`NAME` that the gateway's certificate must have")
	flags.StringVar(&options.TokenFile, "token-file", "", "`FILE` that holds the token")
	return options
}

// UntilSignal returns a context that ends with the first SIGINT or SIGTERM. The second one
// ends the program at once.
func UntilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(130)
	}()
	return ctx
}
