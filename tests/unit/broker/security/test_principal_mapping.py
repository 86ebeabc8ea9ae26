"""From the subject of a client certificate to a principal."""

from __future__ import annotations

import pytest

from klamm.access.acls import ANONYMOUS
from klamm.broker.security.principal_mapping import distinguished_name, mapping_rules, principal_of
from klamm.config import ConfigError
from klamm.net.security.tls_bytes import Subject

ALICE: Subject = (
    (("countryName", "DE"),),
    (("organizationName", "Ops"),),
    (("organizationalUnitName", "Kafka"),),
    (("commonName", "alice"),),
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (ALICE, "CN=alice,OU=Kafka,O=Ops,C=DE"),
        (((("organizationName", "Ops, Inc."),), (("commonName", "a+b"),)), r"CN=a\+b,O=Ops\, Inc."),
        (((("commonName", "#x "),),), r"CN=\#x\ "),
        (((("commonName", "a"), ("userId", "7")),), "CN=a+UID=7"),
    ],
)
def test_a_subject_is_written_as_rfc_2253_has_it(subject: Subject, name: str) -> None:
    assert distinguished_name(subject) == name


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", "CN=alice,OU=Kafka,O=Ops,C=DE"),
        ("", "CN=alice,OU=Kafka,O=Ops,C=DE"),
        ("RULE:^.*CN=([^,]+).*$/$1/U", "ALICE"),
        ("RULE:^CN=([^,]+),OU=Spark,.*$/spark-$1/L, DEFAULT", "CN=alice,OU=Kafka,O=Ops,C=DE"),
        ("RULE:^CN=([^,]+),OU=(Kafka),.*$/$2-$1/L,DEFAULT", "kafka-alice"),
        (r"RULE:CN=(.*?),.*/a\/$1/", "a/alice"),
    ],
)
def test_the_first_rule_that_matches_names_the_user(rules: str, user: str) -> None:
    found = principal_of(ALICE, mapping_rules(rules))
    assert found is not None
    assert str(found) == f"User:{user}"


def test_without_a_certificate_a_client_is_anonymous_and_without_a_matching_rule_it_is_refused() -> None:
    assert principal_of(None, mapping_rules("RULE:x/y/")) == ANONYMOUS
    assert principal_of(ALICE, mapping_rules("RULE:CN=bob/y/")) is None


def test_a_long_subject_is_cut_before_patterns_see_it() -> None:
    long = ((("commonName", "a" * 1000),),)
    found = principal_of(long, mapping_rules("RULE:CN=(.*)/$1/"))
    assert found is not None
    assert len(found.name) == 252


@pytest.mark.parametrize(
    ("rules", "advice"),
    [("RULE:(/x/", "rule 1"), ("DEFAULT,RULE", "rule 2"), ("RULE:x/$1/", r"\$1"), ("RULE:x/y/Z", "rule 1")],
)
def test_a_rule_that_cannot_be_is_refused(rules: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        mapping_rules(rules)
