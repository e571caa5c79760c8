// What is added to franz-go's own package of tests: its clients log in, as SUITE_MECHANISM says.
package kgo

import (
	"os"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const suiteUser, suitePassword = "test", "test"

func suiteLogin() sasl.Mechanism {
	scramAuth := scram.Auth{User: suiteUser, Pass: suitePassword}
	switch name := os.Getenv("SUITE_MECHANISM"); name {
	case "PLAIN":
		return plain.Auth{User: suiteUser, Pass: suitePassword}.AsMechanism()
	case "SCRAM-SHA-256":
		return scramAuth.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scramAuth.AsSha512Mechanism()
	default:
		panic("SUITE_MECHANISM is " + name)
	}
}

// Every client of the suite has this among its options.
func getSeedBrokers() Opt {
	return clientOpt{func(cfg *cfg) {
		suiteSeedBrokers().apply(cfg)
		SASL(suiteLogin()).apply(cfg)
	}}
}
