from airflow_provider_kafka_spark.core.tokens.token_selection import TokenSelection
from airflow_provider_kafka_spark.hooks.delegation_token import DelegationTokenHook


def use_a_token() -> None:
    with DelegationTokenHook("kafka_default") as hook:
        token = hook.create(lease_ms=600_000, renewers=["User:operator"])
        assert token.info.owner  # The secret is token.hmac, which is masked in logs.
        hook.renew_token(token, period_ms=600_000)
        hook.expire_token(token)


def end_tokens_of(owner: str) -> None:
    with DelegationTokenHook("kafka_default") as hook:
        now_ms = hook.now_ms()
        alive = [token.token_id for token in hook.describe(owner) if token.expiry_ms > now_ms]
        hook.expire(TokenSelection(token_ids=tuple(alive)))
