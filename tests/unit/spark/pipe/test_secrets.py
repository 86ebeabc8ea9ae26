"""Secrets of a job: in its file only, not in the record beside its checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from klamm.spark.pipe.ends import reading, writing
from klamm.spark.pipe.job import Job, job_of
from klamm.spark.pipe.record import HIDDEN, read_record, record_of, with_secrets, write_record

SECRET = "geheim"
SECRETS = {
    "kafka.sasl.password": SECRET,
    "KAFKA.SASL.JAAS.CONFIG": f'x required password="{SECRET}";',
    "kafka.ssl.key.password": SECRET,
    "kafka.ssl.keystore.key": SECRET,
    "kafka.sasl.oauthbearer.client.secret": SECRET,
    "schemaRegistry.basic.auth.user.info": f"me:{SECRET}",
    "schemaRegistry.bearer.auth.token": SECRET,
}


def a_job(**more: object) -> Job:
    tree = {"source": {"topics": "t", "options": SECRETS}, "sink": {"topic": "u", "options": SECRETS}, **more}
    return job_of(tree, name="j", bootstrap="there:1", client={"sasl.password": SECRET, "client.id": "me"})


def test_the_record_of_a_job_has_no_secret(tmp_path: Path) -> None:
    job = replace(
        a_job(), spark={"spark.hadoop.fs.s3a.secret.key": SECRET}, schema_registry=f"http://u:{SECRET}@r"
    )
    write_record(str(tmp_path), record_of(job))
    text = (tmp_path / "klamm-job.json").read_text()
    assert SECRET not in text
    assert json.loads(text)["job"]["schema_registry"] == f"http://{HIDDEN}@r"
    assert SECRET not in repr(job)


def test_what_was_written_down_is_complete_with_the_secrets_of_today(tmp_path: Path) -> None:
    write_record(str(tmp_path), record_of(a_job()))
    record = read_record(str(tmp_path))
    assert record is not None
    written = {**record.settings["sink.options"], "kafka.client.id": "old"}
    assert with_secrets(written, SECRETS) == {**SECRETS, "kafka.client.id": "old"}
    assert with_secrets(written, {}) == {"kafka.client.id": "old"}


def test_both_ends_have_the_settings_of_clients_and_their_own_options_win() -> None:
    table = {"client": {"security.protocol": "SSL", "client.id": "file"}, "bootstrap": "here:1"}
    job = a_job(**table, source={"topics": "t", "options": {"kafka.client.id": "own"}})
    read, written = reading(job), writing(job)
    assert read["kafka.bootstrap.servers"] == written["kafka.bootstrap.servers"] == "here:1"
    assert read["kafka.security.protocol"] == written["kafka.security.protocol"] == "SSL"
    assert (read["kafka.client.id"], written["kafka.client.id"]) == ("own", "file")
    assert a_job().bootstrap == "there:1"
    assert reading(a_job())["kafka.sasl.password"] == SECRET
