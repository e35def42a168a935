// Package admin asks a cluster for its features and changes them: the calls of kfeatures, which takes the place of
// Kafka's kafka-features (KIP-584, KIP-778, KIP-1022).
//
//	bootstrap addresses --ApiVersions--> a node of the kind that is meant
//	   brokers:     it answers for the cluster, and forwards a change to the active controller
//	   controllers: --DescribeCluster--> the active controller (KIP-919)
//	a description is that node's ApiVersions, a change is UpdateFeatures
//
// Connections are franz-go's, one client for each address, so that nothing is asked that was not meant: a client for
// several begins with Metadata, which controllers don't serve. Its client metrics are off (KIP-714).
//
// Where no address answers, they are tried again for some seconds, since a cluster may be about to start; after that who
// typed a wrong address should know. A cluster that answers and has no controller at the moment is asked again until the
// time is up, and so is a change whose answer got lost: made twice it is made once.
//
// Settings are those of a Java client's properties file:
//
//	security.protocol        PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
//	sasl.mechanism           PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, with sasl.jaas.config; delegation tokens too (tokenauth)
//	ssl.truststore.*         PEM (in the file or in a property), JKS, PKCS12; none: the certificates of the system
//	ssl.keystore.*           the same, for a certificate of the client; ssl.key.password
//	ssl.endpoint.identification.algorithm, ssl.enabled.protocols, ssl.cipher.suites
//
// Left out: GSSAPI, OAUTHBEARER, classes of one's own, config providers. Where the file asks for one, it is refused.
//
// Errors are *client.Error, several of them joined with errors.Join. No secret is in one.
package admin
