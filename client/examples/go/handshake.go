package ackgate

import (
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
)

// clientAdvice is what to do about a certificate of this side.
const clientAdvice = "give TLSCert and TLSKey (--tls-cert, --tls-key)"

// lasting says of the library's words why TLS did not come about, and what to do. gRPC
// reports every broken connection as UNAVAILABLE, which asks to be tried again; a
// certificate that is not trusted would not be trusted the next time either.
var lasting = []struct {
	words  *regexp.Regexp
	advice string
}{
	{
		regexp.MustCompile(`x509: (certificate is (valid for|not valid for any)|cannot validate certificate for)`),
		"the gateway's certificate is not for this name: use one that it has, in the address or as the server name (--tls-server-name)",
	},
	{
		regexp.MustCompile(`x509: certificate has expired or is not yet valid`),
		"the gateway's certificate is out of its time: the gateway needs another one",
	},
	{
		regexp.MustCompile(`x509: certificate signed by unknown authority|x509: .*(not standards compliant|not trusted)`),
		"the gateway's certificate is of no authority that is trusted here: name the authority that signed it (--tls-ca)",
	},
	{
		regexp.MustCompile(`first record does not look like a TLS handshake`),
		"what listens there does not speak TLS: use http:// and no TLS options, or its TLS port",
	},
	{
		regexp.MustCompile(`remote error: tls: certificate required`),
		"the gateway wants a certificate of this side: " + clientAdvice,
	},
	{
		regexp.MustCompile(`remote error: tls: (bad|unsupported|revoked|expired|unknown) certificate|remote error: tls: access denied`),
		"the gateway does not take this side's certificate: " + clientAdvice + " that it trusts",
	},
}

// cutOff is what a connection ends with before the first message, whatever there is at the
// other end.
var cutOff = regexp.MustCompile(`error reading server preface|connection reset|broken pipe|EOF`)

// explain puts what a call that was never answered failed with in words that help: an error
// of TLS if trying again would not help; else a hint where plain text may have met TLS.
func (t *target) explain(e *Error) *Error {
	if e == errClosing {
		return e
	}
	told := *e
	told.Address = t.address
	switch e.Code {
	case codes.Unavailable, codes.Unknown, codes.Internal, codes.Canceled:
	default:
		return &told
	}
	// With a reason the gateway itself has spoken.
	if e.Reason != "" {
		return &told
	}
	if t.secure {
		for _, one := range lasting {
			if one.words.MatchString(e.Message) {
				told.TLS = true
				told.Code = codes.Unavailable
				told.Message = fmt.Sprintf("no TLS with %s: %s (%s)", strings.TrimPrefix(t.name, "dns:///"), one.advice, e.Message)
				return &told
			}
		}
	}
	if !cutOff.MatchString(e.Message) {
		return &told
	}
	hint := "the gateway may not take this side's certificate; its log says so"
	switch {
	case !t.secure:
		hint = "if the gateway speaks TLS, the address begins with https://"
	case !t.hasCert:
		hint = "if the gateway wants a certificate of this side, " + clientAdvice
	}
	told.Message = fmt.Sprintf("%s (%s)", e.Message, hint)
	return &told
}
