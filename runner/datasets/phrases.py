"""A synthetic phrasebook: English sentences from templates, with their German translations.

Nothing here was written or translated by a person sentence by sentence: a small grammar (case,
gender, endings of adjectives, order of words, perfect tense, subordinate clauses) draws both sides
at once.  That is enough to make a small translation model work for its score, and it says nothing
about how well anything translates real text.

Sentences are lists of tokens: words, and the marks . , ? as tokens of their own; only nouns and
the formal "Sie" have capitals.  `join` makes text of them, `split` tokens of English text.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence

MARKS = (".", ",", "?")
_TOKEN = re.compile(r"[\w'-]+|[.,?]")

# English, German, gender: places, goods, food.
_PLACES = """station Bahnhof m|hotel Hotel n|museum Museum n|church Kirche f|bridge Brücke f|
market Markt m|pharmacy Apotheke f|bakery Bäckerei f|airport Flughafen m|beach Strand m|park Park m|
castle Schloss n|restaurant Restaurant n|bank Bank f|school Schule f|theatre Theater n|
harbour Hafen m|library Bibliothek f|square Platz m|tower Turm m"""
_GOODS = """ticket Fahrkarte f|map Stadtplan m|bag Tasche f|key Schlüssel m|umbrella Regenschirm m|
coat Mantel m|book Buch n|camera Kamera f|suitcase Koffer m|bicycle Fahrrad n|car Auto n|
room Zimmer n|table Tisch m|watch Uhr f|phone Telefon n|newspaper Zeitung f|shirt Hemd n|hat Hut m|
picture Bild n|lamp Lampe f|knife Messer n|blanket Decke f|boat Boot n|jacket Jacke f"""
_FOOD = """coffee Kaffee m|tea Tee m|soup Suppe f|beer Bier n|cake Kuchen m|salad Salat m|juice Saft m|
fish Fisch m|cheese Käse m|breakfast Frühstück n|sausage Wurst f|egg Ei n|orange Orange f|
apple Apfel m"""
_ADJECTIVES = """red rot|small klein|large groß|new neu|old alt|green grün|good gut|cheap billig|
beautiful schön|warm warm|black schwarz|white weiß|quiet ruhig|modern modern|famous berühmt|
different ander|cold kalt|strange seltsam|fresh frisch|heavy schwer"""
# English subject, German subject, person: 1, 3, or 4 for the plural.
_SUBJECTS = """I,ich,1|we,wir,4|they,sie,4|he,er,3|my brother,mein Bruder,3|my sister,meine Schwester,3|
the children,die Kinder,4|my parents,meine Eltern,4|the waiter,der Kellner,3|the guests,die Gäste,4|
our neighbour,unser Nachbar,3|the teacher,die Lehrerin,3|your friend,Ihr Freund,3"""
# English base, third person, past; German first, third person, plural, participle.
_VERBS = """buy buys bought kaufe kauft kaufen gekauft|need needs needed brauche braucht brauchen gebraucht|
find finds found finde findet finden gefunden|see sees saw sehe sieht sehen gesehen|
take takes took nehme nimmt nehmen genommen|order orders ordered bestelle bestellt bestellen bestellt|
lose loses lost verliere verliert verlieren verloren|
forget forgets forgot vergesse vergisst vergessen vergessen|
sell sells sold verkaufe verkauft verkaufen verkauft|
bring brings brought bringe bringt bringen gebracht|
pay pays paid bezahle bezahlt bezahlen bezahlt|show shows showed zeige zeigt zeigen gezeigt|
draw draws drew zeichne zeichnet zeichnen gezeichnet|
repair repairs repaired repariere repariert reparieren repariert"""
_NOW = """today,heute|every day,jeden Tag|in the morning,am Morgen|at night,in der Nacht|
on Monday,am Montag|in summer,im Sommer|now,jetzt|often,oft"""
_THEN = """yesterday,gestern|last week,letzte Woche|on Sunday,am Sonntag|in winter,im Winter|
two days ago,vor zwei Tagen"""
_NUMBERS = """two zwei|three drei|four vier|five fünf|six sechs|seven sieben|eight acht|nine neun|
ten zehn|twelve zwölf|twenty zwanzig"""
_MODALS = """can,kann,können|must,muss,müssen|should,soll,sollen|will,werde,werden"""


def _table(text: str, mark: str | None = None) -> list[list[str]]:
    return [row.strip().split(mark) for row in text.replace("\n", "").split("|")]


PLACES, GOODS, FOOD = _table(_PLACES), _table(_GOODS), _table(_FOOD)
ADJECTIVES, SUBJECTS = _table(_ADJECTIVES), _table(_SUBJECTS, ",")
VERBS, NOW, THEN = _table(_VERBS), _table(_NOW, ","), _table(_THEN, ",")
NUMBERS, MODALS = _table(_NUMBERS), _table(_MODALS, ",")

# By case and gender: the definite article; the ending of "ein" and its kind; the ending of an
# adjective after the definite article, and after "ein".
_CASES = {
    "nom": {"m": ("der", "", "e", "er"), "f": ("die", "e", "e", "e"), "n": ("das", "", "e", "es")},
    "acc": {
        "m": ("den", "en", "en", "en"),
        "f": ("die", "e", "e", "e"),
        "n": ("das", "", "e", "es"),
    },
    "dat": {
        "m": ("dem", "em", "en", "en"),
        "f": ("der", "er", "en", "en"),
        "n": ("dem", "em", "en", "en"),
    },
}
_OWNERS = (("my", "mein"), ("your", "Ihr"), ("our", "unser"), ("no", "kein"), ("her", "ihr"))

Texts = tuple[str, str]
Pair = tuple[list[str], list[str]]


class Grammar:
    """Draws sentence pairs.

    Args:
        source: the stream to draw from.
        held_out: whether adjectives may stand beside nouns that training never shows together.
    """

    def __init__(self, source: random.Random, held_out: bool) -> None:
        self._r = source
        self._held_out = held_out

    def sentence(self) -> Pair:
        """English and German tokens."""
        kinds = (
            self._where, self._way, self._price, self._wish, self._offer, self._present,
            self._present, self._past, self._past, self._modal, self._modal, self._negated,
            self._thought, self._thought, self._quality, self._position, self._question,
        )  # fmt: skip
        english, german = self._r.choice(kinds)()
        return english.split(), german.split()

    def _noun(
        self, pool: Sequence[Sequence[str]], case: str, kinds: str = "dio", *, share: float = 0.75
    ) -> tuple[str, str]:
        """A noun phrase; kinds: d definite, i indefinite, o with an owner or "no"."""
        kind = self._r.choice(kinds)
        while True:
            noun, german, gender = self._r.choice(pool)
            adjective = self._r.choice(ADJECTIVES) if self._r.random() < share else None
            rare = adjective is not None and _unseen(adjective[0], noun)
            if not rare or self._held_out:
                break
        article, ein, after_the, after_ein = _CASES[case][gender]
        first = adjective[0] if adjective else noun
        if kind == "d":
            english, word, ending = "the", article, after_the
        elif kind == "i":
            english = "an" if first[0] in "aeiou" else "a"
            word, ending = "ein" + ein, after_ein
        else:
            english, stem = self._r.choice(_OWNERS)
            word, ending = stem + ein, after_ein
        parts = [adjective[0]] if adjective else []
        ours = [adjective[1] + ending] if adjective else []
        return " ".join([english, *parts, noun]), " ".join([word, *ours, german])

    def _who(self) -> tuple[str, str, int]:
        english, german, person = self._r.choice(SUBJECTS)
        return english, german, int(person)

    def _object(self, kinds: str = "dio") -> tuple[str, str]:
        return self._noun(self._r.choice((GOODS, GOODS, FOOD)), "acc", kinds)

    def _where(self) -> Texts:
        english, german = self._noun(PLACES, "nom", "ddo")
        return f"where is {english} ?", f"wo ist {german} ?"

    def _way(self) -> Texts:
        english, german = self._noun(PLACES, "dat", "d")
        contracted = german.replace("dem ", "zum ", 1).replace("der ", "zur ", 1)
        who, er, person = self._who()
        do = "does" if person == 3 else "do"
        come = _verb(person, "komme", "kommt", "kommen")
        return f"how {do} {who} get to {english} ?", f"wie {come} {er} {contracted} ?"

    def _price(self) -> Texts:
        english, german = self._noun(GOODS, "nom", "ddo")
        number, zahl = self._r.choice(NUMBERS)
        if self._r.random() < 0.5:
            return f"how much does {english} cost ?", f"was kostet {german} ?"
        return f"{english} costs {number} euros .", f"{german} kostet {zahl} Euro ."

    def _wish(self) -> Texts:
        english, german = self._noun(self._r.choice((FOOD, GOODS)), "acc", "di")
        who, er, person = self._who()
        want = _verb(person, "möchte", "möchte", "möchten")
        return f"{who} would like {english} , please .", f"{er} {want} {german} , bitte ."

    def _offer(self) -> Texts:
        english, german = self._noun(self._r.choice((FOOD, GOODS)), "acc", "i")
        who, wen = self._r.choice(
            (("me", "mich"), ("us", "uns"), ("him", "ihn"), ("my sister", "meine Schwester"))
        )
        return f"do you have {english} for {who} ?", f"haben Sie {german} für {wen} ?"

    def _clause(self) -> tuple[str, str, str]:
        """An object and perhaps a place: English, the object in German, the place in German."""
        what, was = self._object()
        if self._r.random() < 0.35:
            near, neben = self._r.choice((("in", "in"), ("near", "neben"), ("behind", "hinter")))
            place, ort = self._noun(PLACES, "dat", "di", share=0.5)
            ort = f"{neben} {ort}".replace("in dem ", "im ", 1)
            return f"{what} {near} {place}", was, " " + ort
        return what, was, ""

    def _present(self) -> Texts:
        who, er, person = self._who()
        verb = self._r.choice(VERBS)
        what, was, ort = self._clause()
        does = verb[1] if person == 3 else verb[0]
        tut = _verb(person, verb[3], verb[4], verb[5])
        when, wann = self._r.choice(NOW)
        draw = self._r.random()
        if draw < 0.35:
            return f"{when} {who} {does} {what} .", f"{wann} {tut} {er} {was}{ort} ."
        if draw < 0.7:
            return f"{who} {does} {what} {when} .", f"{er} {tut} {wann} {was}{ort} ."
        return f"{who} {does} {what} .", f"{er} {tut} {was}{ort} ."

    def _past(self) -> Texts:
        who, er, person = self._who()
        verb = self._r.choice(VERBS)
        what, was, ort = self._clause()
        hat = _verb(person, "habe", "hat", "haben")
        when, wann = self._r.choice(THEN)
        if self._r.random() < 0.5:
            return f"{when} {who} {verb[2]} {what} .", f"{wann} {hat} {er} {was}{ort} {verb[6]} ."
        return f"{who} {verb[2]} {what} {when} .", f"{er} {hat} {wann} {was}{ort} {verb[6]} ."

    def _modal(self) -> Texts:
        who, er, person = self._who()
        verb, modal = self._r.choice(VERBS), self._r.choice(MODALS)
        what, was, ort = self._clause()
        kann = modal[2] if person == 4 else modal[1]
        if modal[0] == "will" and person == 3:
            kann = "wird"
        if self._r.random() < 0.4:
            return (
                f"{modal[0]} {who} {verb[0]} {what} ?",
                f"{kann} {er} {was}{ort} {verb[5]} ?",
            )
        return (
            f"{who} {modal[0]} {verb[0]} {what} .",
            f"{er} {kann} {was}{ort} {verb[5]} .",
        )

    def _negated(self) -> Texts:
        who, er, person = self._who()
        verb = self._r.choice(VERBS)
        what, was = self._object("d")
        do = "does" if person == 3 else "do"
        tut = _verb(person, verb[3], verb[4], verb[5])
        return f"{who} {do} not {verb[0]} {what} .", f"{er} {tut} {was} nicht ."

    def _thought(self) -> Texts:
        who, er, person = self._who()
        verb = self._r.choice(VERBS)
        what, was, ort = self._clause()
        start, anfang = self._r.choice(
            (
                ("I think that", "ich glaube , dass"),
                ("we know that", "wir wissen , dass"),
                ("he is happy because", "er ist froh , weil"),
                ("please wait until", "bitte warten Sie , bis"),
                ("I do not know whether", "ich weiß nicht , ob"),
            )
        )
        if self._r.random() < 0.4:
            hat = _verb(person, "habe", "hat", "haben")
            return (
                f"{start} {who} {verb[2]} {what} .",
                f"{anfang} {er} {was}{ort} {verb[6]} {hat} .",
            )
        does = verb[1] if person == 3 else verb[0]
        tut = _verb(person, verb[3], verb[4], verb[5])
        return f"{start} {who} {does} {what} .", f"{anfang} {er} {was}{ort} {tut} ."

    def _quality(self) -> Texts:
        english, german = self._noun(self._r.choice((GOODS, PLACES, FOOD)), "nom", "do")
        much, sehr = self._r.choice((("very", "sehr"), ("too", "zu"), ("not", "nicht")))
        how, wie = self._r.choice([row for row in ADJECTIVES if row[0] != "different"])
        return f"{english} is {much} {how} .", f"{german} ist {sehr} {wie} ."

    def _position(self) -> Texts:
        english, german = self._noun([*PLACES, *GOODS], "nom", "ddo")
        near, neben = self._r.choice(
            (("behind", "hinter"), ("near", "neben"), ("under", "unter"), ("opposite", "gegenüber"))
        )
        place, ort = self._noun(PLACES, "dat", "dio", share=0.5)
        return f"{english} is {near} {place} .", f"{german} ist {neben} {ort} ."

    def _question(self) -> Texts:
        who, er, person = self._who()
        verb = self._r.choice(VERBS)
        word, wort = self._r.choice((("when", "wann"), ("why", "warum"), ("where", "wo")))
        what, was = self._object()
        if self._r.random() < 0.5:
            hat = _verb(person, "habe", "hat", "haben")
            return f"{word} did {who} {verb[0]} {what} ?", f"{wort} {hat} {er} {was} {verb[6]} ?"
        do = "does" if person == 3 else "do"
        tut = _verb(person, verb[3], verb[4], verb[5])
        return f"{word} {do} {who} {verb[0]} {what} ?", f"{wort} {tut} {er} {was} ?"


def _verb(person: int, first: str, third: str, plural: str) -> str:
    return {1: first, 3: third}.get(person, plural)


def _unseen(adjective: str, noun: str) -> bool:
    """Whether training never shows these two together: about every fifth pair."""
    return zlib.crc32(f"{adjective} {noun}".encode()) % 5 == 0


def draw(
    count: int, seed: int, *, held_out: bool, known: frozenset[str] = frozenset()
) -> list[Pair]:
    """`count` different sentences; those whose English text is in `known` are left out."""
    grammar = Grammar(random.Random(seed), held_out)
    seen = set(known)
    pairs: list[Pair] = []
    while len(pairs) < count:
        english, german = grammar.sentence()
        text = " ".join(english)
        if text not in seen:
            seen.add(text)
            pairs.append((english, german))
    return pairs


def join(tokens: Sequence[str]) -> str:
    """Tokens to text: marks without a blank before, a capital at the beginning."""
    text = ""
    for token in tokens:
        text += token if token in MARKS or not text else " " + token
    return text[:1].upper() + text[1:]


def split(text: str) -> list[str]:
    """English text to tokens: lower case, marks apart."""
    return tokens_of(text.lower())


def tokens_of(text: str) -> list[str]:
    """Words and marks as they stand."""
    return _TOKEN.findall(text)
