"""Texts as chats have them, in many languages and kinds: what a tokenizer makes of them differs by a factor of ten."""

import base64
import json
import random
import uuid

_SENTENCES = {
    "English": "Then the river went on and on between the hills. ",
    "German": "Im Frühling fließt der Fluss langsam durch das Tal, und die Leute arbeiten auf den Feldern. ",
    "Finnish": "Keväällä joki virtaa hitaasti laakson läpi ja ihmiset työskentelevät pelloilla. ",
    "Turkish": "İlkbaharda nehir vadide yavaşça akar ve insanlar tarlalarda çalışır. ",
    "Vietnamese": "Vào mùa xuân, dòng sông chảy chậm qua thung lũng và mọi người làm việc. ",
    "Russian": "Весной река медленно течёт по долине, а люди работают в поле. ",
    "Arabic": "في الربيع يجري النهر ببطء في الوادي ويعمل الناس في الحقول. ",
    "Hindi": "वसंत में नदी धीरे-धीरे घाटी में बहती है और लोग खेतों में काम करते हैं। ",
    "Thai": "ในฤดูใบไม้ผลิแม่น้ำไหลช้าๆผ่านหุบเขาและผู้คนทำงานในทุ่งนา ",
    "Burmese": "နွေဦးတွင် မြစ်သည် ချိုင့်ဝှမ်းထဲသို့ ဖြည်းညှင်းစွာ စီးဆင်းသည်။ ",
    "Amharic": "በጸደይ ወንዙ በሸለቆው ውስጥ ቀስ ብሎ ይፈሳል ሰዎችም በእርሻ ይሠራሉ። ",
    "Chinese": "春天来了，河水慢慢地流过山谷，人们在田里劳动。",
    "Japanese": "春になると、川はゆっくりと谷を流れ、人々は畑で働きます。",
    "Korean": "봄이 오면 강은 천천히 골짜기를 흐르고 사람들은 밭에서 일합니다. ",
    "emoji": "😀👩‍👩‍👧‍👦🏳️‍🌈🥲🫠👍🏽",
    "punctuation": "!@#$%^&*()_+-=[]{}|;':,./<>?",
    "capitals": "THE RIVER WENT ON AND ON BETWEEN THE HILLS ",
    "blank lines": "\n \t",
    "code": "    for index, (name, value) in enumerate(sorted(rows.items())):\n        out[name] += value * 2\n",
}


def _made() -> dict[str, str]:
    dice = random.Random(1)
    rows = [{"id": i, "name": f"user{i}", "score": dice.random(), "ok": True} for i in range(80)]
    lines = (f"2026-11-22T07:{i:02}:11Z ERROR [worker-{i}] 0x{dice.getrandbits(48):x} refused" for i in range(60))
    return {
        "JSON": json.dumps(rows, indent=2),
        "log": "\n".join(lines),
        "numbers": "\n".join(",".join(f"{dice.random():.3f}" for _ in range(8)) for _ in range(60)),
        "base64": base64.b64encode(dice.randbytes(4000)).decode(),
        "hexadecimal": dice.randbytes(3000).hex(),
        "UUIDs": "\n".join(str(uuid.UUID(bytes=dice.randbytes(16))) for _ in range(100)),
        "paths": "\n".join(f"/usr/lib/x86_64-linux-gnu/lib{dice.choice('abc')}oo{i}.so.{i % 7}" for i in range(80)),
    }


KINDS = _SENTENCES | _made()


def text_of_kind(kind: str, characters: int) -> str:
    return (KINDS[kind] * (characters // len(KINDS[kind]) + 1))[:characters]
