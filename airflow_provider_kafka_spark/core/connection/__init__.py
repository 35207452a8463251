"""A connection's login and TLS, for both clients: PEM and key stores, SASL, Kerberos, OIDC."""
