"""Written working for whole-number arithmetic, small enough steps for a small model to learn."""

PLACES = ("Ones", "Tens", "Hundreds", "Thousands", "Ten thousands")


def digits(number: int, width: int) -> list[int]:
    """Decimal digits, ones first, padded with zeros to `width`."""
    return [number // 10**i % 10 for i in range(width)]


def add(a: int, b: int) -> list[str]:
    """Column addition of two non-negative numbers; the last line states the sum."""
    width, carry, lines = len(str(max(a, b))), 0, []
    for place, x, y in zip(PLACES, digits(a, width), digits(b, width), strict=False):
        terms = f"{x} + {y}" + (" + 1" if carry else "")
        total = x + y + carry
        carry = total // 10
        lines.append(f"{place}: {terms} = {total}, write {total % 10}" + (", carry 1." if carry else "."))
    return [*lines, f"So {a} + {b} = {a + b}."]


def subtract(a: int, b: int) -> list[str]:
    """Column subtraction with borrowing, for a >= b >= 0; the last line states the difference."""
    width, borrow, lines = len(str(a)), 0, []
    for place, x, y in zip(PLACES, digits(a, width), digits(b, width), strict=False):
        terms = f"{y} + 1 = {y + 1}, take it from" if borrow else f"take {y} from"
        y += borrow
        borrow = int(x < y)
        top = x + 10 * borrow
        lines.append(f"{place}: {terms} {top}, write {top - y}" + (", borrow 1." if borrow else "."))
    return [*lines, f"So {a} - {b} = {a - b}."]


def multiply(a: int, b: int) -> list[str]:
    """Partial products of `a` by each place of `b`, then their sum; the last line states the product."""
    parts = [(d * 10**i, a * d * 10**i) for i, d in enumerate(digits(b, len(str(b)))) if d][::-1]
    if len(parts) == 1:
        return _split(a, *parts[0])
    total, lines = 0, [_one_line(a, factor, product) for factor, product in parts]
    for _, product in parts:
        lines += add(total, product) if total else []
        total += product
    return [*lines, f"So {a} x {b} = {total}."]


def _split(a: int, factor: int, product: int) -> list[str]:
    """Multiply by one non-zero digit times a power of ten, tens and ones on lines of their own."""
    high, low = a - a % 10, a % 10
    if not high or not low:
        return [f"{a} x {factor} = {product}."]
    return [
        f"{high} x {factor} = {high * factor}.",
        f"{low} x {factor} = {low * factor}.",
        _one_line(a, factor, product),
    ]


def _one_line(a: int, factor: int, product: int) -> str:
    high, low = a - a % 10, a % 10
    middle = f"{high * factor} + {low * factor} = " if high and low else ""
    return f"{a} x {factor} = {middle}{product}."


def percent(rate: int, base: int) -> list[str]:
    """A multiple of 5 % of a multiple of 20, from tenths and halves of tenths; the last line states the part."""
    tenth, tens = base // 10, rate // 10
    lines = [f"10 % of {base} is {tenth}."]
    if tens > 1:
        lines.append(f"{rate // 10 * 10} % is {tens} x {tenth} = {tens * tenth}.")
    if rate % 10:
        lines.append(f"5 % is half of {tenth}, which is {tenth // 2}.")
    if tens and rate % 10:
        lines.append(f"{tens * tenth} + {tenth // 2} = {rate * base // 100}.")
    return [*lines, f"So {rate} % of {base} is {rate * base // 100}."]


def divide(a: int, b: int) -> list[str]:
    """Exact division for b that divides a, by looking for the factor in tens and ones."""
    quotient = a // b
    tens = quotient // 10 * 10
    if not tens:
        return [f"{b} x {quotient} = {a}, so {a} / {b} = {quotient}."]
    rest = a - b * tens
    lines = [f"{b} x {tens} = {b * tens}, and {a} - {b * tens} = {rest}."]
    if rest:
        lines.append(f"{b} x {quotient - tens} = {rest}.")
    return [*lines, f"So {a} / {b} = {quotient}."]
