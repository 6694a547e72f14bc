"""What importing costs, what is documented, what the command says."""

import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gramian
import laws

TORCH = re.compile(r"gramian\.gram\.gpu(\..*)?")
"""Modules that need torch, which is an extra."""
MODULES = [m.name for m in pkgutil.walk_packages(gramian.__path__, "gramian.") if not TORCH.fullmatch(m.name)]


def test_importing_pulls_in_nothing_heavy():
    # A time would depend on the machine; what takes the time does not.
    code = """
import sys, sklearn
before = set(sys.modules)
import gramian.kernels, gramian.gram
print(*{name.split(".")[0] for name in set(sys.modules) - before})
"""
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert loaded <= {"gramian", "array_api_compat", "scipy", "threadpoolctl"}


def public_objects():
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute, value in vars(module).items():
            ours = getattr(value, "__module__", None) == name and not attribute.startswith("_")
            if ours and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{name}.{attribute}", value


@pytest.mark.parametrize(("name", "value"), list(public_objects()))
def test_every_public_name_is_documented(name, value):
    assert inspect.getdoc(value), f"{name} has no docstring"
    if inspect.isclass(value):
        for member, method in inspect.getmembers(value, lambda m: inspect.isfunction(m) or isinstance(m, property)):
            ours = (getattr(method, "__module__", None) or "gramian").startswith("gramian")
            if not member.startswith("_") and ours:
                assert inspect.getdoc(method), f"{name}.{member} has no docstring"


@pytest.mark.parametrize(
    "module", ["gramian", "gramian.kernels", "gramian.gram", "gramian.losses", "gramian.rkhs", "gramian.certificates"]
)
def test_every_name_that_people_import_has_an_example(module):
    names = importlib.import_module(module)
    for name in names.__all__:
        value = getattr(names, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert ">>> " in inspect.getdoc(value), f"{module}.{name} has no example"


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_holds(name):
    assert importlib.import_module(name).__doc__, f"{name} has no docstring"


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "gramian", *arguments], capture_output=True, text=True, check=False)


def test_the_command_knows_its_version_and_its_mistakes():
    assert gramian.__version__ in run("--version").stdout
    wrong = run("demon")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_modules_are_attributes_without_an_import():
    code = "import gramian; print(gramian.kernels.RBF(2.0)); hasattr(gramian, 'no_such_module')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "RBF(2.0)\n"
    with pytest.raises(AttributeError, match="no_such_module"):
        _ = gramian.no_such_module


def test_every_public_name_is_there():
    for name in gramian.__all__:
        assert getattr(gramian, name).__name__ == name
    assert set(gramian.__all__) <= set(dir(gramian))
    assert sorted(name for names in gramian._PLACES.values() for name in names) == sorted(gramian.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'KernelRige'"):
        _ = gramian.KernelRige


def test_the_kernel_of_contributing_obeys_the_laws(rng, monkeypatch):
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    namespace = {"__name__": "contributing"}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], namespace)

    def pointwise(k, x, z, same):
        return 1 / (1 + np.sum(((x - z) / np.asarray(k.lengthscale)) ** 2))

    monkeypatch.setitem(laws.reference.POINTWISE, "Cauchy", pointwise)
    for lengthscale in (0.7, [0.5, 1.0, 2.0]):
        k = namespace["Cauchy"](lengthscale)
        case = laws.Case(k, rng.random((6, 3)), rng.random((5, 3)))
        for law in (
            laws.symmetric,
            laws.positive_semidefinite,
            laws.diag_is_the_diagonal,
            laws.tile_is_the_double_loop,
            laws.any_tiling_gives_the_same_product,
            laws.theta_round_trip,
            laws.vjp_is_the_finite_difference,
            laws.grad_inputs_is_the_finite_difference,
            laws.float32_stays_float32,
            laws.dictionary_round_trip,
            laws.runs_on_strict_arrays,
        ):
            law(case)


def documented_parameters(doc):
    """Names in the Parameters section of a numpydoc docstring."""
    lines = inspect.cleandoc(doc).splitlines()
    rules = [i for i, line in enumerate(lines) if i and set(line.strip()) == {"-"}]
    section = next((i for i in rules if lines[i - 1].strip() == "Parameters"), None)
    if section is None:
        return []
    end = next((i - 1 for i in rules if i > section), len(lines))
    heads = [line for line in lines[section + 1 : end] if line and not line.startswith(" ")]
    return [name.strip().lstrip("*") for head in heads for name in head.split(" : ")[0].split(",")]


def signature_parameters(value):
    names = [name for name in inspect.signature(value).parameters if not name.startswith("_")]
    bound = inspect.isfunction(value) and "." in value.__qualname__ and names[:1] in (["self"], ["cls"])
    return names[1:] if bound else names


def documented_callables():
    for name, value in public_objects():
        if not inspect.isclass(value):
            yield name, value
            continue
        abstract = inspect.isabstract(value) or getattr(value, "_is_protocol", False)
        own = value.__init__ is not object.__init__ and not issubclass(value, Exception | tuple)
        if own and not abstract and "Not for direct use" not in inspect.getdoc(value):
            yield name, value
        for member, method in vars(value).items():
            plain = method.__func__ if isinstance(method, classmethod | staticmethod) else method
            if not member.startswith("_") and inspect.isfunction(plain):
                yield f"{name}.{member}", plain


@pytest.mark.parametrize(("name", "value"), list(documented_callables()))
def test_documented_parameters_are_those_of_the_signature(name, value):
    documented = documented_parameters(value.__doc__ or inspect.getdoc(value) or "")
    # Lint sees to it that public names document their parameters; others need not, but not half of them.
    assert not documented or sorted(documented) == sorted(signature_parameters(value)), name


def test_every_solver_has_tests_of_its_own():
    """At the same path as the module; a result type has nothing to test, and a GPU has its tests beside the engine."""
    source, tests = Path(gramian.__file__).parent / "solvers", Path(__file__).parent / "solvers"
    modules = [path.relative_to(source) for path in source.rglob("*.py") if path.name != "__init__.py"]
    elsewhere = {Path("solution.py"), Path("mixture/on_card.py")}
    without = [m for m in modules if m not in elsewhere and not (tests / m.with_name(f"test_{m.name}")).exists()]
    assert not without


def test_a_fit_passes_through_few_files():
    """The table of ``python -m benchmarks.files``, which grows unseen if nobody counts."""
    spec = importlib.util.spec_from_file_location("files", Path(__file__).parents[1] / "benchmarks" / "files.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    for name, call in table.calls().items():
        call()  # imports and compiles
        assert len(table.files_of(call)) <= table.MOST[name], name
