"""Both ends of a connection: listeners and the connections they accept, and the `NetworkClient`.

The server gives every request frame to a `Service` and sends its responses in order; the client keeps
connections to many nodes with many requests in flight. What is machine (`conversation`, `frames`,
`client`, `node_link`, `connection_states`, `channel_states`) knows no socket; what owns sockets
(`socket_server`, `plain_connection`, `tls`, `kafka_channel`, `selector`) decides nothing about the protocol.
"""
