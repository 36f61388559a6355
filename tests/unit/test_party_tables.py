"""What a party file says of its table, and that a job file cannot say it in its place."""

import pytest

from colonnade.errors import JobError
from colonnade.job.party_file import PartyFile, load_party, own_job
from colonnade.job.records import Job, Party
from colonnade.job.trust import check_taken, taken_from_job

TEXT = """\
table = "bank.csv"
separator = ";"
encoding = "cp1252"
decimal = ","
preprocessing = "auto"
columns = ["*", "!opened"]

[treat]
zip = "category"
"PAY_*" = "quantile"
"""


def test_a_party_file_says_how_its_table_is_written_and_treated(tmp_path):
    (tmp_path / "bank.toml").write_text(TEXT)
    file = load_party(tmp_path / "bank.toml")
    job = own_job(Job(parties={"bank": Party(role="active"), "telco": Party()}), "bank", file)
    own = job.parties["bank"]
    assert (own.separator, own.encoding, own.decimal) == (";", "cp1252", ",")
    assert own.treat == {"zip": "category", "PAY_*": "quantile"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('separator = ";;"', "separator is ';;': give one character"),
        ('separator = "\\""', "give one character"),
        ('decimal = ";"', "decimal is ';': write '.' or ','"),
        ('decimal = ","\nseparator = ","', "decimal and separator are both ','"),
        ('encoding = "zlib_codec"', "which is none that text has"),
        ('encoding = "klingon"', "which is none that text has"),
        ('preprocessing = "autto"', "did you mean 'auto'"),
        ('[treat]\nzip = "categorie"', "'zip' is 'categorie': did you mean 'category'"),
        ("[treat]\nzip = 3", "treat"),
    ],
)
def test_what_no_table_can_be_read_by_is_refused(line, sentence, tmp_path):
    (tmp_path / "bank.toml").write_text(line)
    with pytest.raises(JobError) as caught:
        load_party(tmp_path / "bank.toml")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("field", ["treat", "preprocessing", "separator", "encoding", "decimal"])
def test_a_job_file_does_not_decide_how_a_partys_table_is_read(field):
    value = {"zip": "category"} if field == "treat" else "x"
    tables = {"parties": {"bank": {field: value}}}
    taken = taken_from_job(tables, "bank", PartyFile(table="bank.csv"), [])
    assert taken == {f"parties.bank.{field}": value}
    with pytest.raises(JobError, match=f"the own business of bank .{field}.*--trust-job"):
        check_taken(taken, "bank", trusted=False)
