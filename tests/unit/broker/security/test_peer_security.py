"""How a broker logs in to others with tokens: what it needs for that, and the errors that name it."""

from __future__ import annotations

import pytest

from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.security.peer_security import peer_security
from klamm.config import ConfigError

SECRET = "geheim"
CREDENTIALS = "sasl.oauthbearer.client.credentials"
BASE = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
}
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://idp.example/token"}
CLIENT = {f"{CREDENTIALS}.client.id": "me", f"{CREDENTIALS}.client.secret": SECRET}
JAAS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    f'clientId="me" clientSecret="{SECRET}" scope="kafka";'
)


@pytest.mark.parametrize(
    "more", [CLIENT, {"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": JAAS}]
)
def test_a_client_of_a_token_endpoint_is_given_in_kafkas_ways(more: dict[str, str]) -> None:
    security = peer_security(BrokerConfig.from_settings({**BASE, **ENDPOINT, **more}))
    assert security.tokens is not None
    assert security.login is None
    assert SECRET not in repr(security)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (CLIENT, "sasl.oauthbearer.token.endpoint.url"),
        (ENDPOINT, f"{CREDENTIALS}.client.id"),
        ({**ENDPOINT, f"{CREDENTIALS}.client.id": "me"}, f"{CREDENTIALS}.client.secret"),
        ({**CLIENT, "sasl.oauthbearer.token.endpoint.url": "http://idp.example/token"}, "use https"),
        ({**ENDPOINT, **CLIENT, "sasl.enabled.mechanisms": "PLAIN"}, "is not in sasl.enabled.mechanisms"),
    ],
)
def test_what_is_missing_is_named(settings: dict[str, str], name: str) -> None:
    config = BrokerConfig.from_settings({**BASE, **settings})
    with pytest.raises(ConfigError, match=name) as raised:
        peer_security(config)
    assert SECRET not in str(raised.value)
