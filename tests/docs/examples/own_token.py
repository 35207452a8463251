from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook


def use_a_token() -> None:
    with DelegationTokenHook("kafka_default") as hook:
        token = hook.create(lease_ms=600_000, renewers=["User:operator"])
        assert token.info.owner  # The secret is token.hmac, which is masked in logs.
        hook.renew_token(token, period_ms=600_000)
        hook.expire_token(token)
