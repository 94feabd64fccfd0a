"""The version of Didyma, which findings record and `didyma --version` prints."""

VERSION = "0.1.0"
