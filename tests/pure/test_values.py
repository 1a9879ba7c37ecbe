"""Values of a text: what counts as one, and whether what is covered bears it out."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.text.values import Evidence, find_values

# ---- what is found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cap is 12,847.50 EUR.", ["12,847.50"]),
        ("See https://example.org/runbook#7.", ["https://example.org/runbook#7"]),
        ("It is in /srv/data/q3.csv or ./out", ["/srv/data/q3.csv", "./out"]),
        ("Ticket ZXHC-86630 and `v1.2.3`", ["ZXHC-86630", "v1.2.3"]),
        ("The column user_id is a key", ["user_id"]),
        ("1. first\n2) second\n- 3. third", []),
        ("- 3 eggs for 5% of us", ["5%"]),
        ("commit 9f3c2ab", ["9f3c2ab"]),
        ("账户里还有250元可以退", ["250"]),
        ("2024年5月3日出发，3月5日返回", ["2024年5月3", "3月5"]),
        ("全部で3万5千円かかる", ["3万5千"]),
        ("設定はconfig.yamlの42行にある", ["config.yaml", "42"]),
        ("详见https://example.org/a?b=1的说明", ["https://example.org/a?b=1"]),
        ("회비는 5달러를 넘지 않는다", ["5달러를"]),
        ("الوزن ٣٫٥ والعدد ١٢٣", ["٣٫٥", "١٢٣"]),
    ],
)
def test_values_are_found_as_they_stand(text: str, expected: list[str]) -> None:
    assert find_values(text) == expected


# ---- evidence


@pytest.mark.parametrize(
    ("source", "claim"),
    [
        ("The total is 12,847 units", "12847 units"),
        ("Die Summe ist 1.204.331,50 Euro", "EUR 1,204,331.50"),
        ("Es sind 12 847 Stück", "12847 pieces"),
        ("about 5 gigabytes of logs", "5 GB"),
        ("the budget is $40k", "a budget of 40,000 dollars"),
        ("on 2026-12-01", "01.12.2026"),
        ("the job nightly_sync fails", "NIGHTLY_SYNC"),
        ("a rate of 33 %", "33%"),
        ("余额5美元，已退款", "退款5美元"),
        ("一共三十五个人", "35个人"),
        ("下午4点30分出发", "4:30"),
        ("open at 9", "from 9:00"),
        ("from 12 to 14", "12–14"),
        ("30 days", "a 30-day limit"),
        ("到2024年5月3日为止", "2024-05-03"),
        ("до 15 числа", "до 15-го числа"),
        ("الوزن ٣٫٥", "3.5 kg"),
        ("between $500 and\n$1,200", "The range is $500-$1,200."),
        ("It takes 5 h and 30 minutes.", "It takes 5h30."),
        ("a = 7001\nb = 8002", "`a = 7001; b = 8002` is what runs."),
        ("<h1>Ten more.<br/>See the fault of 2026</h1>", "The title is “Ten more. See the fault of 2026.”"),
        ("The signature is FF 74 4F\n63.", "The signature is FF744F63."),
        ("It begins at 1032, and 9600 follow: 10632.", "It goes on at 1032+9600=10632."),
        ("HAT229 leaves DEN at 11:00 and is in LAS at 13:00.", "HAT229: DEN 11:00–LAS 13:00."),
        ("It is 4.5 € for a portion.", "It costs 4.5 €/portion."),
    ],
)
def test_a_value_is_borne_out_in_whatever_spelling(source: str, claim: str) -> None:
    assert Evidence(source).missing(claim) == []


@pytest.mark.parametrize(
    ("source", "claim", "missing"),
    [
        ("The total is 12,847 units", "12,874 units", ["12,874"]),
        ("Ticket ZXHC-86630", "Ticket ZXHC-86631", ["ZXHC-86631"]),
        ("https://example.org/a", "https://example.org/b", ["https://example.org/b"]),
        ("128474", "12847", ["12847"]),
        ("5,040 rows in 5 files", "about 5,000 rows", ["5,000"]),
        ("退了150美元", "退了50美元", ["50"]),
        ("at 4:30 PM", "16:45", ["16:45"]),
        ("from 12 to 14", "12–15", ["12–15"]),
        ("예산은 350달러를 넘지 않습니다", "예산은 530달러까지", ["530달러까지"]),
    ],
)
def test_a_value_that_does_not_occur_is_missing_as_it_stands(source: str, claim: str, missing: list[str]) -> None:
    assert Evidence(source).missing(claim) == missing


def test_words_occur_as_whole_words_only() -> None:
    evidence = Evidence("The Nightly  job\nruns; nightlyjobs do not.")
    assert evidence.says("nightly job")
    assert not evidence.says("night")
    assert not evidence.says("jobs")
    assert not evidence.says("")


def test_a_small_count_need_not_occur() -> None:
    assert Evidence("apples, pears and plums").missing("3 fruits; 14 trees") == ["14"]


def test_words_of_scripts_without_blanks_have_no_borders() -> None:
    evidence = Evidence("先确认订单再退款。\n회의실에서 만나요")
    assert evidence.says("订单")
    assert evidence.says("회의실")
    assert not evidence.says("发票")


PARTS = st.sampled_from(
    ["we", "12,847", "1.234,5", "余额5美元，已退款", "3万5千円", "2024年5月3日", "三十五", "16:30", "٣٫٥", "v1.2"]
) | st.sampled_from(["2026-12-01", "ZX-9", "a_b", "https://a.example/?q=1", "5 GB", "$4k", "~300ms", "(7)", "0x1F"])
TEXTS = st.lists(PARTS, max_size=12).map(" ".join) | st.text(max_size=60)


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_bears_itself_out_among_others(before: str, text: str, after: str) -> None:
    assert Evidence(f"{before}\n{text}\n{after}").missing(text) == []


@given(TEXTS)
def test_what_is_found_stands_in_the_text(text: str) -> None:
    assert all(value in text for value in find_values(text))


@given(
    st.integers(100, 10**12),
    st.integers(0, 11),
    st.integers(1, 9),
    st.sampled_from(["{}", "{:,}", "EUR {:,}.", "{} ms", "-{}", "n={}", "#{}", "A-{}"]),
)
def test_a_number_with_an_altered_digit_is_missing(number: int, place: int, by: int, form: str) -> None:
    digits = str(number)
    place %= len(digits)
    altered = digits[:place] + str((int(digits[place]) + by) % 10) + digits[place + 1 :]
    assume(altered[0] != "0")
    evidence = Evidence(f"We counted {form.format(number)} of them.")
    assert evidence.missing(form.format(number)) == []
    assert evidence.missing(form.format(int(altered))) != []
