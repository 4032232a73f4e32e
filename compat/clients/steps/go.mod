module steps

go 1.26
