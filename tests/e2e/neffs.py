"""Makes files of models for the simulated runtime."""


def neff(name, us):
    return f"SIMNEFF 1\nname={name}\nexec_us={us}\ncc=0\ntensor_frees=0\ncopyins=0\n".encode()


def many_neffs(threads, n):
    """{(thread, i): (name, its bytes)}: three in four have a name of their own, the rest one name and bytes of their own."""
    return {(t, i): (name, neff(name, 1 + t * n + i)) for t in range(threads) for i in range(n) for name in [f"net-{t}-{i}" if i % 4 else "same"]}
