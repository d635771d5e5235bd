"""DDI Codebooks: the same categories, labels and missing codes as an SPSS file has."""

import polars as pl
import pyreadstat
import pytest

import keyhole as kh
from keyhole.data import SourceOptions, ddi, read_codebook, read_microdata
from keyhole.errors import CodebookError

BARE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE codeBook SYSTEM "http://www.icpsr.umich.edu/DDI/Version2-0.dtd">
<codeBook version="2.5">
<!-- <var name="NONE"><catgry><catValu>1</catValu></catgry></var> -->
<dataDscr>
<var ID="V1" name="AGE"><labl>Age</labl>
 <catgry><catValu>0</catValu><labl>Under 15</labl></catgry>
 <catgry><catValu>15</catValu><labl>15 to
    64</labl><catStat type="freq">12</catStat></catgry>
 <catgry><catValu> 65.0 </catValu><labl>65 and over</labl></catgry>
 <catgry missing="Y"><catValu>99</catValu><labl>Not <emph>stated</emph></labl></catgry>
</var>
<var name="SEX" nature="nominal">
 <catgry missing="N"><catValu>2</catValu><labl>Female</labl></catgry>
 <catgry><catValu>1</catValu><labl level="category" xml:lang="en">Male</labl><labl>Homme</labl></catgry>
 <catgry><catStat>3</catStat></catgry>
</var>
<var name="EDUC" nature="ordinal">
 <catgry><catValu>p</catValu><labl>primary</labl></catgry>
 <catgry><catValu>s</catValu></catgry>
 <catgry><catValu>t</catValu><labl>tertiary</labl></catgry>
</var>
<var name="INCOME"><catgry missing="Y"><catValu>999</catValu><labl>Unknown</labl></catgry></var>
<var name="WEIGHT" intrvl="contin"/>
</dataDscr></codeBook>
"""
SPACED = BARE.replace('<codeBook version="2.5">', '<codeBook xmlns="ddi:codebook:2_5" version="2.5">')
PREFIXED = BARE.replace("<codeBook ", '<d:codeBook xmlns:d="ddi:codebook:2_5" ').replace("</code", "</d:code")
FRAME = pl.DataFrame({
    "AGE": [0, 15, 99, 15, 65, 0, 70, 99],
    "SEX": [1, 2, 1, 2, 1, 2, 1, 2],
    "EDUC": ["p", "t", "s", "p", "t", "p", "p", "s"],
})  # fmt: skip


@pytest.fixture(params=[BARE, SPACED, PREFIXED], ids=["bare", "namespace", "prefix"])
def book(request, tmp_path):
    path = tmp_path / "study.xml"
    path.write_text(request.param, encoding="utf-8")
    return path


def test_categories_are_those_of_the_document_in_its_order(book):
    found = read_codebook(book)
    assert list(found) == ["AGE", "SEX", "EDUC", "INCOME"]
    assert found["AGE"].categories == ("0", "15", "65", "99")
    assert found["AGE"].labels == ("Under 15", "15 to 64", "65 and over", "Not stated")
    assert found["AGE"].user_missing == ("99",)
    assert (found["SEX"].categories, found["SEX"].labels) == (("2", "1"), ("Female", "Male"))
    assert (found["EDUC"].labels, found["EDUC"].marked) == (("primary", "s", "tertiary"), True)
    assert found["INCOME"].user_missing == ("999",)


def test_codes_that_occur_without_a_label_are_added(book):
    found = read_microdata(FRAME, "AGE,SEX,EDUC", book)
    age, sex, educ = found.variables
    assert age.categories == ("0", "15", "65", "70", "99")
    assert age.labels == ("Under 15", "15 to 64", "65 and over", "70", "Not stated")
    assert (age.ordered, age.orderable) == (True, (0, 4)), "what is missing is outside the order"
    assert (sex.categories, sex.ordered) == (("2", "1"), False)
    assert educ.ordered


def test_codes_declared_missing_are_blank_on_request(book):
    options = SourceOptions(user_missing="blank")
    found = read_microdata(FRAME, "AGE,SEX", book, options=options)
    assert found.variables[0].categories == ("0", "15", "65", "70", "")
    assert read_microdata(FRAME, "AGE,SEX", book, missing="drop", options=options).records == 6
    assert read_microdata(FRAME, "AGE,SEX", book, missing="drop").records == 8


@pytest.mark.parametrize("user_missing", ["keep", "blank"])
def test_a_file_of_spss_with_the_same_labels_reads_the_same(book, tmp_path, user_missing):
    labels = {"AGE": {0: "Under 15", 15: "15 to 64", 65: "65 and over", 99: "Not stated"}}
    pyreadstat.write_sav(
        FRAME.select("AGE", "SEX").to_pandas(), tmp_path / "x.sav", variable_value_labels=labels,
        missing_ranges={"AGE": [99]},
    )  # fmt: skip
    FRAME.write_csv(tmp_path / "x.csv")
    options = SourceOptions(user_missing=user_missing)
    spss = read_microdata(tmp_path / "x.sav", "AGE", options=options)
    text = read_microdata(tmp_path / "x.csv", "AGE", book, options=options)
    assert (text.variables, text.codes.tolist()) == (spss.variables, spss.codes.tolist())
    assert text.variables[0].orderable == spss.variables[0].orderable


def test_bands_leave_codes_declared_missing_alone(book):
    frame = pl.DataFrame({"INCOME": [100, 250, 999, 300, 120, 999], "SEX": [1, 2, 1, 2, 1, 2]})
    found = read_microdata(frame, "INCOME,SEX", book, options=SourceOptions(bands={"INCOME": "0,200,300"}))
    assert found.variables[0].categories == ("0-199", "200-299", "300+", "999")
    assert found.variables[0].labels[-1] == "Unknown"


def test_it_serves_inspect_and_a_run(book, tmp_path):
    FRAME.write_csv(tmp_path / "x.csv")
    shown = {found.name: found for found in kh.inspect(tmp_path / "x.csv", codebook=book).variables}
    assert ("99", "Not stated") in shown["AGE"].categories
    run = kh.assess(tmp_path / "x.csv", "AGE,SEX", population=8, codebook=book)
    assert run.summary.input.observed_keys == []
    assert run.summary.input.ordered == ["AGE"]


def test_a_population_may_have_codes_without_a_label(book, tmp_path):
    from keyhole.evaluation.population import open_population

    FRAME.write_parquet(tmp_path / "x.parquet")
    found = open_population(tmp_path / "x.parquet", "AGE,SEX", book)
    assert found.variables[0].categories == ("0", "15", "65", "70", "99")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<codeBook><var>", r"line 1 is not XML"),
        ("<codeBook/>", "describes no variable with categories: a DDI Codebook of version 2"),
        ("<!DOCTYPE c [<!ENTITY x 'y'>]><c/>", "declares entities or refers to other files"),
        ("<c><var><catgry><catValu>1</catValu></catgry></var></c>", "without a name"),
        (BARE.replace('"SEX"', '"AGE"'), "describes 'AGE' twice with different categories"),
        (BARE.replace(">15<", ">0<"), "'AGE' lists the category '0' twice"),
        ("", "line 1 is not XML"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, text, message):
    path = tmp_path / "study.xml"
    path.write_text(text)
    with pytest.raises(CodebookError, match=message) as told:
        read_codebook(path)
    assert str(told.value).startswith(f"{path}")
    assert "\n" not in str(told.value)


def test_a_variable_that_files_of_a_study_share_is_read_once(tmp_path):
    start, end = BARE.index('<var name="SEX"'), BARE.index('<var name="EDUC"')
    (tmp_path / "study.xml").write_text(BARE[:end] + BARE[start:end] + BARE[end:])
    assert list(read_codebook(tmp_path / "study.xml")) == ["AGE", "SEX", "EDUC", "INCOME"]


def test_xml_is_known_without_its_ending(tmp_path):
    (tmp_path / "study.ddi").write_bytes(b"\xef\xbb\xbf \n" + BARE[BARE.index("<codeBook") :].encode())
    assert "AGE" in read_codebook(tmp_path / "study.ddi")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(ddi, "MOST_BYTES", 100)
    (tmp_path / "study.xml").write_text(BARE)
    with pytest.raises(CodebookError, match="is larger than 0 MB: keep the <var> elements of the keys only"):
        read_codebook(tmp_path / "study.xml")


def test_variables_of_the_study_that_the_file_lacks_are_not_named(book):
    """INCOME is in the codebook only; a key called INCOMF is no slip of the pen, as in a codebook of keys."""
    frame = FRAME.with_columns(INCOMF=pl.Series([1, 2] * 4))
    found = read_microdata(frame, ["AGE", "SEX", "INCOMF"], codebook=book)
    assert found.reading["codebook_strangers"] == {}
    with pytest.raises(CodebookError, match="'INCOME'"):
        read_microdata(frame, ["AGE", "SEX", "INCOMF"], codebook={"INCOME": [1, 2]})
