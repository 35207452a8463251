"""Java sources of this package, compiled on the driver by Janino, which Spark ships for its own generated code.

So there is no build step and no binary, and the classes fit the Spark in use.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

_RESOURCE = "org.codehaus.commons.compiler.util.resource.Resource"


@dataclass(frozen=True, slots=True)
class CompiledClasses:
    """:param bytecodes: by the path of the class file.
    :param loader: a Java class loader that has the classes.
    """

    bytecodes: Mapping[str, bytes]
    loader: Any

    def write_jar(self, path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
            for name, content in sorted(self.bytecodes.items()):
                jar.writestr(name, content)


def java_sources(package: str, folder: str = "") -> dict[str, str]:
    """The Java files in a folder of a Python package, by their path on a class path."""
    path = "/".join([*package.split("."), *folder.split()])
    return {
        f"{path}/{file.name}": file.read_text(encoding="utf-8")
        for file in files(package).joinpath(folder).iterdir()
        if file.name.endswith(".java")
    }


def compile_java(jvm: Any, sources: Mapping[str, str]) -> CompiledClasses:
    """Compile sources that may use each other.

    :param sources: from :func:`java_sources`.
    :raises Py4JJavaError: if they do not compile.
    :raises TypeError: if the driver has no Janino.
    """
    resource = jvm.org.codehaus.commons.compiler.util.resource
    finder = resource.MapResourceFinder()
    for name, text in sources.items():
        finder.addResource(name, text)
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.Compiler(finder, jvm.org.codehaus.janino.ClassLoaderIClassLoader(parent))
    class_files = jvm.java.util.HashMap()
    # Found, so that no class is compiled twice.
    compiler.setClassFileFinder(resource.MapResourceFinder(class_files))
    compiler.setClassFileCreator(resource.MapResourceCreator(class_files))
    compiler.setDebugLines(True)
    compiler.setDebugSource(True)
    array = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName(_RESOURCE), len(sources))
    for i, name in enumerate(sources):
        array[i] = finder.findResource(name)
    compiler.compile(array)
    by_name = jvm.java.util.HashMap()
    for name in class_files:
        by_name.put(name.removesuffix(".class").replace("/", "."), class_files[name])
    loader = jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader(by_name, parent)
    return CompiledClasses({name: bytes(class_files[name]) for name in class_files}, loader)
