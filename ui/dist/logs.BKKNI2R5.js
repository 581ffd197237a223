import"./c.5QCHKTFP.js";import"./c.BNNAAXG4.js";import"./c.LYXALABG.js";import"./c.W7VN5GBK.js";
