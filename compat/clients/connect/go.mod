module connect-client

go 1.26

require steps v0.0.0

replace steps => ../steps
