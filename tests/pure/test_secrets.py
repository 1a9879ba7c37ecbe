"""What is masked, what stays, and that nothing else changes.

The secrets are made up from a seed, so that nothing here looks like a leaked one to the scanners of a code host.
"""

import base64
import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.redaction import mask

_RANDOM = random.Random(4)
_UPPER = string.ascii_uppercase + "234567"
_DIGITS = string.digits
_ANY = string.ascii_letters + string.digits
_URL = _ANY + "_-"
_HEX = "0123456789abcdef"


def made(length: int, alphabet: str = _ANY) -> str:
    """Random characters, a digit and a letter among them."""
    while True:
        text = "".join(_RANDOM.choices(alphabet, k=length))
        if set(text) & set(_DIGITS) or not set(alphabet) & set(_DIGITS):
            return text


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def pem(kind: str, more: str = "") -> str:
    lines = "\n".join(made(64, _ANY + "+/") for _ in range(6))
    return f"-----BEGIN {kind}-----\n{more}{lines}\n-----END {kind}-----"


JWT = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': '17', 'iat': 1516239022})}.{made(43, _URL)}"
PUTTY = f"Public-Lines: 1\n{made(64)}\nPrivate-Lines: 2\n"

# name: (what stands before the secret, the secret, what stands behind it, its kind)
SECRETS = {
    "aws key id": ("aws_access_key_id = ", "AKIA" + made(16, _UPPER), "\n", "AWS Access Key"),
    "aws temporary key id": ("Credentials: ", "ASIA" + made(16, _UPPER), " (temporary)", "AWS Access Key"),
    "aws secret key": ("AWS_SECRET_ACCESS_KEY=", made(40, _ANY + "/+"), "\n", "secret"),
    "aws secret key in quotes": ("aws_secret_access_key = '", made(40), "'", "AWS Access Key"),
    "aws secret key in JSON": ('{"SecretAccessKey": "', made(40), '", "Region": "eu-west-1"}', "secret"),
    "github": ("git clone https://", "ghp_" + made(36), "@github.com/acme/x.git", "GitHub Token"),
    "github app": ("token: ", "ghs_" + made(36), "", "GitHub Token"),
    "github fine-grained": ("GITHUB_TOKEN=", f"github_pat_{made(22)}_{made(59)}", "\n", "API key"),
    "gitlab": ("PRIVATE-TOKEN: ", "glpat-" + made(20), "", "GitLab Token"),
    "openai": ('OpenAI(api_key="', f"sk-proj-{made(74, _URL)}T3BlbkFJ{made(74, _URL)}", '")', "API key"),
    "openai, old": ("OPENAI_API_KEY=", f"sk-{made(20)}T3BlbkFJ{made(20)}", "", "API key"),
    "anthropic": ("x-api-key: ", f"sk-ant-api03-{made(93, _URL)}AA", "\n", "API key"),
    "openrouter": ("key=", "sk-or-v1-" + made(64, _HEX), "", "API key"),
    "open webui": ("Authorization: Bearer ", "sk-" + made(32, _HEX), "", "API key"),
    "hugging face": ("hf login --token ", "hf_" + made(34, string.ascii_letters), "", "API key"),
    "google": ("https://maps.googleapis.com/maps/api/js?key=", "AIza" + made(35, _URL), "&v=3", "API key"),
    "google client": ('"client_secret":"', "GOCSPX-" + made(28, _URL), '"', "API key"),
    "google access": ("got ", "ya29." + made(120, _URL), "", "API key"),
    "slack bot": ("SLACK=", f"xoxb-{made(12, _DIGITS)}-{made(13, _DIGITS)}-{made(24)}", "", "Slack Token"),
    "slack hook": ("curl ", f"https://hooks.slack.com/services/T{made(8)}/B{made(10)}/{made(24)}", "", "Slack Token"),
    "stripe": ("stripe.api_key = '", "sk_live_" + made(99), "'", "Stripe Access Key"),
    "stripe restricted": ("key: ", "rk_live_" + made(24), "", "Stripe Access Key"),
    "twilio": ("sid ", "SK" + made(32, _HEX), "", "Twilio API Key"),
    "sendgrid": ("mail ", f"SG.{made(22, _URL)}.{made(43, _URL)}", " key", "SendGrid API Key"),
    "mailchimp": ("mc ", made(32, _HEX) + "-us12", "", "Mailchimp Access Key"),
    "npm": ("//registry.npmjs.org/:_authToken=", "npm_" + made(36), "", "API key"),
    "pypi": ("password = ", "pypi-AgEIcHlwaS5vcmc" + made(80, _URL), "", "PyPI Token"),
    "telegram": ("/bot", made(10, "123456789") + ":AA" + made(33, _URL), "/getMe", "Telegram Bot Token"),
    "discord": ("bot.run('", f"M{made(24)}.{made(6)}.{made(38)}", "')", "Discord Bot Token"),
    "azure storage": ("AccountName=a;AccountKey=", made(86) + "==", ";EndpointSuffix=core.windows.net", "secret"),
    "JWT": ("Set-Cookie: session=", JWT, "; Path=/", "JSON Web Token"),
    "bearer": ("> Authorization: Bearer ", made(40), "\n> Accept: */*", "bearer token"),
    "bearer in JSON": ('{"Authorization": "Bearer ', f"{made(24)}.{made(20)}", '"}', "bearer token"),
    "bearer alone": ("sent as bearer ", made(40), " to it", "bearer token"),
    "basic": ("Authorization: Basic ", base64.b64encode(b"admin:correct-horse-9").decode(), "", "bearer token"),
    "postgres": ("postgresql://app:", "s3cr3t-Pa55", "@db.internal:5432/orders", "password"),
    "mysql": ('create_engine("mysql+pymysql://root:', "Tr0ub4dor&3", '@10.0.0.5/shop")', "password"),
    "mongodb": ("mongodb+srv://svc:", "p@ss!word", "@cluster0.ab12c.mongodb.net/?w=1", "password"),
    "redis without user": ("REDIS_URL=redis://:", "letters", "@cache:6379/0", "password"),
    "ado": ("Server=sql1,1433;User ID=sa;Password=", "lettersonly", ";Encrypt=true", "password"),
    "libpq": ("host=db1 user=app password=", "lettersonly", " sslmode=require", "password"),
    "libpq in another order": ("dbname=crm password=", "lettersonly", " user=app", "password"),
    "jdbc": ("jdbc:postgresql://localhost/test?user=fred&password=", "lettersonly", "&ssl=true", "password"),
    "variable for a container": ("docker run -e MYSQL_ROOT_PASSWORD=", "lettersonly", " mysql", "password"),
    "environment": ("DB_PASSWORD=", "x7$kPq29zLm", "\n", "password"),
    "environment, short": ("SMTP_PASS=", "hunter2", "\nSMTP_PORT=25", "password"),
    "password in JSON": ('{"user": "app", "password": "', "hV7#p(l2,wQ9", '", "host": "db"}', "password"),
    "password in code": ('config["password"] = "', "hV7#pl2wQ9", '"', "password"),
    "password in XML": ("<password>", "hV7#pl2wQ9", "</password>", "password"),
    "JSON in JSON": ('{"text": "{\\"password\\": \\"', "hV7#pl2wQ9", '\\", \\"n\\": 1}"}', "password"),
    "key in YAML": ("api_key: ", made(32, _HEX), "\nregion: eu", "secret"),
    "key in a header": ("curl -H 'X-Api-Key: ", made(32), "' https://api.example.com", "secret"),
    "RSA key": ("here:\n", pem("RSA PRIVATE KEY"), "\nthat was it", "private key"),
    "OpenSSH key": ("$ cat id\n", pem("OPENSSH PRIVATE KEY"), "\n$", "private key"),
    "key with headers": ("", pem("EC PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES,A1\n\n"), "", "private key"),
    "PGP key": ("", pem("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n"), "", "private key"),
    "key in JSON": ('{"private_key": "', json.dumps(pem("PRIVATE KEY"))[1:-1], '\\n", "n": 1}', "private key"),
    "key that is cut off": ("", pem("PRIVATE KEY").partition("\n-----END")[0], "\n[truncated, 12 more]", "private key"),
    "putty key": (PUTTY, f"{made(64)}\n{made(40)}", "\nPrivate-MAC: 1", "private key"),
}

ORDINARY = [
    "The committee agreed on Tuesday: passwords must have 12 characters; the password policy is reviewed each year.",
    "Please reset your password: go to settings, then security.",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8\nAuthor: Jane Doe <jane@example.com>",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"etag": "33a64df551425fcc55e4d42a148795d9f25f89d4"',
    "| id | name | tokens |\n| 1 | abc | 1204 |\n",
    '{"rows": [{"id": 17, "token_count": 12847, "key": "status", "secretary": "Mrs Smith"}]}',
    "def login(user, password):\n    return check(user, password=password, token=token)\n",
    "const token = process.env.API_TOKEN;\nconst apiKey = getApiKey();",
    'password = os.environ["DB_PASSWORD"]; password = db2_password; secret = hashlib.sha256(salt1234567890abcd)',
    "api_key=${API_KEY}\nPASSWORD={{ vault_password }}\npassword: <your password>\nDB_PASS=$DB_PASS1\nPASSWORD=%s",
    "postgres://user:${PASSWORD}@host/db and postgres://user:****@host/db and postgres://{user}:{password}@{host}",
    "SELECT user_id, password_hash FROM users WHERE token IS NOT NULL;",
    "https://example.com/a/b?key=value&page=2, https://docs.example.com:8443/path/user@host",
    "ssh://git@github.com:22/acme/repo.git, http://localhost:3000/@vite/client, http://[::1]:8080/",
    "time 12:30 http://a.example/x:y, mail bob@example.org",
    "cursor: eyJpZCI6MTIzLCJuYW1lIjoiYWJjIn0=",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBA==",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCARygAwIBAgIJAKpN\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI\n-----END PUBLIC KEY-----",
    "A file that starts with -----BEGIN PRIVATE KEY----- is a private key, and nothing to send around.",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJmN0 jane@laptop",
    "Bearer tokens are sent in the Authorization header. Authorization: Bearer <token>",
    "the risk-based approach, task-specific, sk-learn; disk-usage-monitoring-service-for-linux-hosts; sk-toggle__x1",
    "primary key: order_id, foreign key: customer_id_reference_number, secret: my-app-secret-name-v2",
    "key: 4711\nsecret: none\ntoken: null\npassword: true\npassword: ********\npassword: required",
    "invoice INV-2024-000123456789, IBAN DE89370400440532013000, phone +49 170 1234567",
    "ulid 01ARZ3NDEKTSV4RRFFQ69G5FAV, nanoid V1StGXR8_Z5jdHi6B-myT, objectid 507f1f77bcf86cd799439011",
    "call_9XyZab12CDef34GHij56KLmn resp_68a1b2c3d4e5f60718293a4b5c6d7e8f chatcmpl-AbCdEf0123456789",
    "max_tokens=4096 tokens: 1234567 total_tokens: 99887766 secret_santa: yes, monkey: banana1234567890",
    "arn:aws:iam::123456789012:role/S3Access; s3://my-bucket/prefix/part-00000-tid-123.snappy.parquet",
    "The secret: a three-headed monkey. The token: a ring of power.",
    '{"nextPageToken": "CAUQAAIBEg1234567890abcdef", "next_page_token": "CDIQAAIBEg1234567890abcdef"}',
    "SKU SK12345, AC1234 and AIzawa, hf_transfer, npm_config_registry, xoxo-kisses, gsk_value",
    "torch==2.1.0 --hash=sha256:f0ef8cb07ae5a4d7c0a4ea8c4c4d2d6f5b9e0d31b2ad4e5d3f3b0c6a7f8e9d0c",
    "integrity sha512-6nJGLN/6P7mO5KQ1qTJ7L0Wz9CVB5w5lL1xgq+ulkHH/iTpAdkG5ux5RyB1Z4ZBhQqJvVjT8gQx5Gz7wT+Xj3Q==",
    "user: admin:x:0:0:root:/root:/bin/bash",
    "Das Passwort: bitte nicht weitergeben. Le mot de passe : voir ci-dessous.",
    "aws_region = 'eu-west-1'; aws s3 cp key /tmp/abc --token-file x",
]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_masked_by_its_kind_and_what_is_around_it_stays(name: str) -> None:
    before, secret, behind, kind = SECRETS[name]

    masked = mask(before + secret + behind)

    assert masked.text == f"{before}[masked: {kind}]{behind}"
    assert masked.count == 1


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    masked = mask(text)

    assert (masked.text, masked.count) == (text, 0)


def test_secrets_that_stand_against_each_other_are_both_masked() -> None:
    text = SECRETS["aws key id"][1] + SECRETS["github"][1]
    assert mask(text).text == "[masked: AWS Access Key][masked: GitHub Token]"


PIECES = st.sampled_from(
    [
        *(before + secret + behind for before, secret, behind, _ in SECRETS.values()),
        *(secret for _, secret, _, _ in SECRETS.values()),
        *ORDINARY,
        *("password", "token", "api_key", "Bearer ", "://", ":", "=", '"', "\\", "\n", "@", " "),
        *("[masked: password]", "a1b2c3d4", "-----BEGIN PRIVATE KEY-----", "İ", "user=a ", ";", "eyJ"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)
VALUES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
)


@given(TEXTS)
def test_masking_twice_is_masking_once(text: str) -> None:
    once = mask(text)

    assert (mask(once.text).text, mask(once.text).count) == (once.text, 0)


@given(VALUES)
def test_json_stays_json_and_so_does_json_in_it(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    json.loads(mask(text).text)
    json.loads(json.loads(mask(json.dumps(text, ensure_ascii=False)).text))
