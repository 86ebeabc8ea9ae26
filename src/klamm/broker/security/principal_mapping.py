"""The principal of a client certificate: its subject, or what ssl.principal.mapping.rules makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from klamm.access.acls import ANONYMOUS, Principal
from klamm.config import ConfigError
from klamm.net.security.tls_bytes import Subject

NAME: Final = "ssl.principal.mapping.rules"
MOST_CHARACTERS: Final = 255  # of a subject that rules see: patterns may be slow
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|DEFAULT")
_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')


class MappingRule(NamedTuple):
    """One rule; without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""  # L, U or neither

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject[:MOST_CHARACTERS])
        if match is None:
            return None
        name = match.expand(self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


def mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules of a setting. Raises ConfigError."""
    rules: list[MappingRule] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _RULE.match(text, position)
        end = match.end() if match is not None else position
        rest = text[end:].lstrip()
        if match is None or (rest and not rest.startswith(",")):
            raise ConfigError(
                NAME,
                f"{NAME}: rule {len(rules) + 1} is invalid: expected RULE:pattern/replacement/[LU] or "
                "DEFAULT",
            )
        rules.append(MappingRule() if match[1] is None else _compiled(len(rules) + 1, *match.groups()))
        position = len(text) - len(rest.removeprefix(",").lstrip()) if rest else len(text)
    return tuple(rules) or (MappingRule(),)


def _compiled(number: int, pattern: str, replacement: str, case: str) -> MappingRule:
    try:
        compiled = re.compile(pattern.replace("\\/", "/"))
        template = re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\/", "/"))
        rule = MappingRule(compiled, template, case)
        groups = {int(each) for each in re.findall(r"\\g<(\d)>", template)}
    except re.error as error:
        raise ConfigError(NAME, f"{NAME}: the pattern of rule {number} is invalid: {error}") from None
    if groups and max(groups) > compiled.groups:
        raise ConfigError(
            NAME, f"{NAME}: rule {number} refers to group ${max(groups)}, which it does not have"
        )
    return rule


def distinguished_name(subject: Subject) -> str:
    """RFC 2253: the most specific part first, special characters escaped."""
    parts = [
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part) for part in subject
    ]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    text = _SPECIAL.sub(r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(value) > 1 else text


def principal_of(subject: Subject | None, rules: Iterable[MappingRule]) -> Principal | None:
    """Who shows a certificate with this subject, or none; None if no rule matches."""
    if subject is None:
        return ANONYMOUS
    name = distinguished_name(subject)
    mapped = next((each for rule in rules if (each := rule.apply(name)) is not None), None)
    return None if mapped is None else Principal("User", mapped)
