#!/bin/sh
# Makes the stores of this folder anew, with openssl and Java's keytool. They are good for a hundred years and for nothing
# but tests; the password of each is changeit, that of the key in keystore.jks is other-secret.
set -e
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
rm -f ./*.pem ./*.jks ./*.p12

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=test authority" -keyout "$tmp/ca.key" -out ca.pem
issue() { # NAME SUBJECT [EXTENSION]
  openssl req -newkey "$4" ${5:+-pkeyopt "$5"} -nodes -subj "$2" -keyout "$1-key.pem" -out "$tmp/csr"
  printf '%s\n' "${3:-basicConstraints=CA:FALSE}" >"$tmp/extensions"
  openssl x509 -req -in "$tmp/csr" -CA ca.pem -CAkey "$tmp/ca.key" -days 36500 -extfile "$tmp/extensions" -out "$1.pem"
}
issue server "/CN=server" "subjectAltName=IP:127.0.0.1,DNS:localhost" ec ec_paramgen_curve:P-256
issue common-name "/CN=localhost" "" ec ec_paramgen_curve:P-256
issue client "/CN=client" "" rsa:2048

openssl pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA256 -in client-key.pem -passout pass:changeit -out client-key-encrypted.pem
openssl pkcs8 -topk8 -v2 aes-128-cbc -v2prf hmacWithSHA1 -in client-key.pem -passout pass:changeit -out client-key-sha1.pem
openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in client-key.pem -passout pass:changeit -out client-key-3des.pem
openssl rsa -traditional -in client-key.pem -out client-key-pkcs1.pem
openssl pkcs12 -export -in client.pem -inkey client-key.pem -certfile ca.pem -name client -passout pass:changeit -out keystore.p12
for kind in jks p12; do
  type=JKS
  [ $kind = jks ] || type=PKCS12
  keytool -importcert -noprompt -alias ca -file ca.pem -keystore truststore.$kind -storetype $type -storepass changeit
done
keytool -importkeystore -noprompt -srckeystore keystore.p12 -srcstoretype PKCS12 -srcstorepass changeit \
  -destkeystore keystore.jks -deststoretype JKS -deststorepass changeit -destkeypass other-secret -srcalias client -srckeypass changeit
keytool -importkeystore -noprompt -srckeystore keystore.p12 -srcstoretype PKCS12 -srcstorepass changeit \
  -destkeystore keystore-keytool.p12 -deststoretype PKCS12 -deststorepass changeit
