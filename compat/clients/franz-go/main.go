package main

import _ "github.com/twmb/franz-go"

func main() {}
