"""Builds the wheel of the modules in this directory. It is a PEP 517 backend that needs no other package and no network. The wheel
contains the modules and the queries of sql/ (as meridian_sql/) unchanged. Equal sources give equal bytes."""
import base64
import hashlib
import os
import re
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
NAME = "meridian_profiler"
MODULES = ("meridian.py", "meridian_data.py")


def _read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def _version():
    """Returns the version of the release, which is stated in CMakeLists.txt."""
    found = re.search(rb"project\(meridian VERSION ([0-9.]+)", _read(TOP, "CMakeLists.txt"))
    if not found:
        raise RuntimeError("build the wheel in a checkout: CMakeLists.txt, which says the version, is not above " + HERE)
    return found.group(1).decode()


def _files(version):
    info = f"{NAME}-{version}.dist-info"
    files = {name: _read(HERE, name) for name in MODULES}
    for name in sorted(os.listdir(os.path.join(TOP, "sql"))):
        if name.endswith(".sql"):
            files[f"meridian_sql/{name}"] = _read(TOP, "sql", name)
    files[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: meridian-profiler\nVersion: {version}\nSummary: Annotations, session control and "
                                 "profile tables of Meridian\nLicense: Apache-2.0\nRequires-Python: >=3.8\n").encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: meridian\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/LICENSE"] = _read(TOP, "LICENSE")
    files[f"{info}/top_level.txt"] = "".join(n[:-3] + "\n" for n in MODULES).encode()
    return info, files


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = _version()
    info, files = _files(version)
    record = "".join("{},sha256={},{}\n".format(n, base64.urlsafe_b64encode(hashlib.sha256(d).digest()).rstrip(b"=").decode(), len(d))
                     for n, d in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"{NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the sources are the repository; there is no sdist of a part of it")
