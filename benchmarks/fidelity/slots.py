"""Makes the values of planted sentences: names, sums, dates, ids, all different within one chat.

In: a seeded random generator, a language, a kind of value. Out: the value as the user writes it.
"""

import random
import re
import uuid
from collections.abc import Callable, Sequence

_PEOPLE = (
    "Amara", "Birgit", "Chandra", "Dmitri", "Elif", "Femke", "Giulia", "Henrik", "Ines", "Joaquin", "Katarzyna",
    "Lindiwe", "Marek", "Noor", "Oksana", "Priya", "Quentin", "Rosalind", "Svenja", "Tomasz", "Ulrike", "Viktor",
    "Wanjiru", "Xenia", "Yusuf", "Zdenka",
)  # fmt: skip
_NAMES = (
    "Okafor", "Lindqvist", "Moreau", "Tanaka", "Petrov", "Haugen", "Castell", "Brandt", "Osei", "Vukovic", "Farkas",
)  # fmt: skip
_CITIES = (
    "Aarhus", "Bergen", "Coimbra", "Debrecen", "Eskilstuna", "Ferrara", "Gdansk", "Hamar", "Izola", "Jena",
    "Kuopio", "Lugo", "Mostar", "Narvik", "Olomouc", "Piran", "Rovaniemi", "Sibiu", "Tartu", "Uppsala", "Viborg",
    "Wismar", "Ystad", "Zadar",
)  # fmt: skip
_REGIONS = (
    "Baltic", "Alpine", "Iberian", "Adriatic", "Nordic", "Benelux", "Silesian", "Bohemian", "Aegean", "Tyrolean",
)  # fmt: skip
_MONTHS = {
    "en": ("January", "February", "March", "April", "May", "June", "July", "September", "October", "November"),
    "de": ("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "September", "Oktober", "November"),
}
_WORDS = (
    "ledger", "harbour", "meadow", "lantern", "orchard", "quarry", "saddle", "timber", "velvet", "willow", "copper",
)  # fmt: skip
_TOPS = ("com", "org", "net", "eu", "io")
_SLOT = re.compile(r"\{(\w+)\}")


class Slots:
    """The values of one chat; no two of them are equal."""

    def __init__(self, rng: random.Random, language: str) -> None:
        self._rng = rng
        self._german = language == "de"
        self._months = _MONTHS.get(language, _MONTHS["en"])
        self._by_numbers = language not in _MONTHS
        self._used: set[str] = set()

    def make(self, kind: str) -> str:
        """A new value of a kind, e.g. `money`; a number at its end tells apart two of one kind (`city2`).

        Only `noise`, a small number that nobody planted, may come again.
        """
        maker: Callable[[], str] = getattr(self, f"_{kind.rstrip('0123456789')}")
        if kind == "noise":
            return maker()
        while (value := maker()).casefold() in self._used:
            pass
        self._used.add(value.casefold())
        return value

    def fill(self, template: str) -> tuple[str, dict[str, str]]:
        """`template` with its {slots} filled, and what they were filled with."""
        values = {name: self.make(name) for name in dict.fromkeys(_SLOT.findall(template))}
        return template.format(**values), values

    def _number(self, number: int) -> str:
        return f"{number:,}".replace(",", "." if self._german else ",")

    def _pick(self, words: Sequence[str]) -> str:
        return self._rng.choice(words)

    def _n(self) -> str:
        return str(self._rng.randrange(13, 990))

    def _few(self) -> str:
        return str(self._rng.randrange(11, 96))

    def _noise(self) -> str:
        return str(self._rng.randrange(3, 60))

    def _big(self) -> str:
        return self._number(self._rng.randrange(1_001, 987_000))

    def _amount(self, amount: str) -> str:
        if self._german:
            return f"{amount} €"
        return self._rng.choice(("€{}", "${}", "{} EUR")).format(amount)

    def _money(self) -> str:
        return self._amount(self._number(self._rng.randrange(1_010, 99_000)))

    def _bigmoney(self) -> str:
        return self._amount(self._number(self._rng.randrange(1_000_100, 89_000_000)))

    def _decimal(self, low: float, high: float, digits: int) -> str:
        written = f"{self._rng.uniform(low, high):.{digits}f}"
        return written.replace(".", ",") if self._german else written

    def _pct(self) -> str:
        return self._decimal(0.2, 38, 1) + (" %" if self._german else "%")

    def _dec(self) -> str:
        return self._decimal(1.1, 29, 2)

    def _rate(self) -> str:
        return self._decimal(0.7, 1.4, 4)

    def _date(self) -> str:
        day, month = self._rng.randrange(1, 29), self._rng.choice(self._months)
        if self._german:
            return f"{day}. {month} 2027"
        number = list(_MONTHS["en"]).index(month)
        number = number + 1 if number < 7 else number + 2
        if self._by_numbers:
            return f"2027-{number:02d}-{day:02d}"
        return self._rng.choice((f"{day} {month} 2027", f"{month} {day}, 2027", f"2027-{number:02d}-{day:02d}"))

    def _daymonth(self) -> str:
        return f"{self._rng.randrange(1, 29)} {self._pick(self._months)}"

    def _monthyear(self) -> str:
        return f"{self._pick(self._months)} {self._rng.randrange(2027, 2034)}"

    def _nth(self) -> str:
        return f"{self._rng.randrange(14, 20)}th of {self._pick(self._months)}"

    def _month(self) -> str:
        return self._pick(self._months)

    def _year(self) -> str:
        return str(self._rng.randrange(1888, 1999))

    def _time(self) -> str:
        return f"{self._rng.randrange(1, 23):02d}:{self._rng.randrange(1, 59):02d}"

    def _person(self) -> str:
        return f"{self._pick(_PEOPLE)} {self._pick(_NAMES)}"

    def _city(self) -> str:
        return self._pick(_CITIES)

    def _region(self) -> str:
        return self._pick(_REGIONS)

    def _word(self) -> str:
        return self._pick(_WORDS)

    def _schema(self) -> str:
        return f"{self._pick(_WORDS)}_{self._pick(_WORDS)}"

    _table = _schema

    def _letters(self, count: int) -> str:
        return "".join(self._rng.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=count))

    def _code(self) -> str:
        return f"{self._letters(self._rng.randrange(2, 5))}-{self._rng.randrange(1_000, 99_999)}"

    def _sha(self) -> str:
        return f"{self._rng.getrandbits(160):040x}"[: self._rng.choice((9, 12, 40))]

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _version(self) -> str:
        return f"{self._rng.randrange(1, 12)}.{self._rng.randrange(1, 30)}.{self._rng.randrange(1, 30)}"

    def _host(self) -> str:
        return f"{self._pick(_WORDS)}-{self._rng.randrange(10, 99)}.example.{self._pick(_TOPS)}"

    def _url(self) -> str:
        return f"https://{self._host()}/{self._pick(_WORDS)}/{self._rng.randrange(100, 99_999)}"

    def _path(self) -> str:
        return f"{self._pick(_WORDS)}/{self._pick(_WORDS)}_{self._rng.randrange(10, 999)}/{self._pick(_WORDS)}.yaml"

    def _email(self) -> str:
        return f"{self._pick(_PEOPLE).lower()}{self._rng.randrange(10, 99)}@{self._host()}"

    def _phone(self) -> str:
        return f"+45 {self._rng.randrange(10, 99)} {self._rng.randrange(10, 99)} {self._rng.randrange(1000, 9999)}"
